-- Documents of a layout are counted when one of them is uncertain.
CREATE INDEX extractions_by_layout ON extractions (organization_id, layout) WHERE layout IS NOT NULL;

-- A supplier whose uncertain values need a review however often people confirmed such values.
CREATE TABLE untrusted_suppliers (
    organization_id uuid        NOT NULL REFERENCES organizations,
    supplier_id     uuid        NOT NULL,
    since           timestamptz NOT NULL DEFAULT postroom_now(),
    PRIMARY KEY (organization_id, supplier_id)
);
CALL belongs_to_organization('untrusted_suppliers');
COMMENT ON TABLE untrusted_suppliers IS 'Suppliers for which a person switched trust off. Other suppliers are trusted once two of their documents were confirmed unchanged.';
COMMENT ON COLUMN untrusted_suppliers.supplier_id IS 'As in records.supplier_id.';
