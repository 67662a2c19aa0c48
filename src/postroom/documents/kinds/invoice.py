"""The document kind `invoice`: supplier, amounts, taxes, line items and payment details.

It declares fields, labels, titles and relations and contains no logic.
"""

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Annotated, Final

from postroom.documents.kinds import field_spec
from postroom.documents.kinds.document_kind import (
    AccountingControls,
    BalanceRelation,
    DocumentKind,
    SumRelation,
    TableSum,
)


@dataclass(frozen=True, slots=True)
class VatAmount:
    """The net amount at one tax rate, and its tax."""

    rate: Decimal
    net: Decimal | None
    vat: Decimal


@dataclass(frozen=True, slots=True)
class InvoiceLine:
    description: str
    quantity: Decimal | None
    unit_price: Decimal | None
    amount: Decimal


@dataclass(frozen=True, slots=True)
class Invoice:
    supplier: Annotated[
        str | None,
        field_spec.party(
            de="Verkäufer, Lieferant, Rechnungssteller, Leistungserbringer, Rechnungsaussteller",
            en="Seller, Supplier, Vendor, From, Bill from, Issued by",
            fr="Vendeur, Fournisseur, Émetteur, Prestataire",
            it="Fornitore, Cedente, Venditore",
            es="Proveedor, Vendedor, Emisor",
            nl="Leverancier, Verkoper",
            pt="Fornecedor, Vendedor, Emitente",
            pl="Sprzedawca, Wystawca",
            da="Leverandør, Sælger, Säljare, Leverantör, Selger",
            tr="Satici",
        ),
    ] = None
    vat_id: Annotated[
        str | None,
        field_spec.vat_id(
            de="USt-IdNr, USt-Id-Nr, USt.-Id.-Nr, USt-ID, UStID, Umsatzsteuer-ID, "
            "Umsatzsteuer-Identifikationsnummer, UID, UID-Nr, UID-Nummer, MwSt-Nr, MWST",
            en="VAT ID, VAT No, VAT number, VAT registration no, VAT Reg No, VAT registration number",
            fr="N° TVA, N° TVA intra, TVA intracommunautaire, Numéro de TVA, TVA",
            it="Partita IVA, P. IVA, P.IVA",
            es="NIF, CIF, NIF-IVA, N.I.F, C.I.F",
            nl="BTW-nummer, BTW nr, BTW",
            pt="NIPC, Contribuinte",
            pl="NIP",
            da="CVR, CVR-nr, SE-nr, Momsnr, Momsregistreringsnr, VAT-nr, Org.nr, Organisationsnr",
        ),
    ] = None
    buyer: Annotated[
        str | None,
        field_spec.recipient(
            de="Rechnungsempfänger, Leistungsempfänger, Käufer, Käufer/Leistungsempfänger, Rechnung an, "
            "Rechnungsadresse, Rechnungsanschrift",
            en="Bill to, Billed to, Sold to, Invoice to, Buyer, Billing address",
            fr="Facturé à, Adresse de facturation, Acheteur, Destinataire",
            it="Cessionario, Destinatario, Intestatario",
            es="Facturar a, Facturado a, Comprador, Destinatario",
            nl="Factuuradres, Factuur aan, Gefactureerd aan, Koper",
            pt="Faturado a, Comprador, Adquirente",
            pl="Nabywca, Odbiorca",
            da="Faktureres til, Faktura til, Fakturaadresse, Fakturaadress, Køber, Köpare, Kjøper",
            tr="Sayin, Alici",
        ),
    ] = None
    number: Annotated[
        str | None,
        field_spec.code(
            de="Rechnungsnummer, Rechnungs-Nr, Rechnung Nr, Rechnung Nummer, Rechnungsnr, Re-Nr, Rg-Nr, "
            "RNr, Beleg-Nr, Belegnummer, Belegnr, Rechnung #, Rechnung?, "
            "Gutschriftsnummer, Gutschrift Nr, Dokumentnummer, Dokument-Nr, Faktura Nr, Faktura-Nr, "
            "Fakturanummer, Nr?, Nummer?",
            en="Invoice number, Invoice no, Invoice #, Invoice ID, Invoice?, Inv no, Inv #, Bill number, "
            "Bill no, Credit note number, Credit note no, Document number, "
            "Document no, Receipt number, Receipt no, Number?, No?, Reference?",
            fr="Facture N°, Facture n, N° de facture, Numéro de facture, N° facture, Facture numéro, "
            "Facture?, Avoir N°, N° d'avoir, Référence facture, Réf. facture, N°?, Numéro?",
            it="Fattura N°, Fattura n, Numero fattura, N. fattura, Fattura?, Numero documento, Nr. fattura",
            es="Factura N°, Número de factura, N° de factura, Nº factura, Nº de factura, Factura?, Núm. "
            "factura",
            nl="Factuurnummer, Factuurnr, Factuur nr, Factuur?, Nota nummer",
            pt="Fatura n, Fatura nº, Número da fatura, Nº da fatura, Factura nº, Fatura?",
            pl="Faktura nr, Faktura VAT nr, Nr faktury, Numer faktury, Faktura?",
            da="Fakturanr, Faktura nr, Fakturanummer, Faktura?",
            tr="Fatura no, Fatura numarasi, Fatura?",
        ),
    ] = None
    issued_on: Annotated[
        date | None,
        field_spec.day(
            in_letterhead=True,
            de="Rechnungsdatum, Liefer- und Rechnungsdatum, Belegdatum, Beleg-Datum, Rechnung vom, "
            "Rechnungsdatum/Leistungsdatum, Ausstellungsdatum, Datum, Re-Datum, Rg-Datum, Fakturadatum, "
            "vom?, von?",
            en="Invoice date, Date of invoice, Bill date, Date of issue, Issue date, Issued at, Issued on, "
            "Date issued, Document date, Date, Tax point date?, Billing date, Dated?",
            fr="Date de facture, Date de facturation, Date facture, Date d'émission, Date, Émise le, "
            "Facture du, du?, le?",
            it="Data fattura, Data di emissione, Data documento, Data, del?",
            es="Fecha de factura, Fecha factura, Fecha de emisión, Fecha de expedición, Fecha",
            nl="Factuurdatum, Datum factuur, Datum",
            pt="Data da fatura, Data de emissão, Data da factura, Data",
            pl="Data wystawienia, Data faktury, Wystawiono dnia, Data?",
            da="Fakturadato, Fakturadatum, Dato, Udstedelsesdato",
            tr="Fatura tarihi, Düzenleme tarihi, Tarih",
        ),
    ] = None
    delivered_on: Annotated[
        date | None,
        field_spec.day(
            de="Leistungsdatum, Lieferdatum, Liefer- und Leistungsdatum, Liefer-/Leistungsdatum, "
            "Leistungszeitraum, Liefer- bzw. Leistungsdatum, Leistungs-Datum, Tag der Lieferung, "
            "Leistungstag, geliefert am",
            en="Delivery date, Date of delivery, Date of supply, Service date, Shipping date, Shipment "
            "date, Date shipped",
            fr="Date de livraison, Date de prestation, Date d'expédition",
            it="Data consegna",
            es="Fecha de entrega, Fecha de operación",
            nl="Leverdatum, Datum levering",
            pt="Data de entrega",
            pl="Data sprzedaży, Data dostawy, Data wykonania usługi",
            da="Leveringsdato, Leveransdatum",
            tr="Teslim tarihi, Sevk tarihi",
        ),
    ] = None
    due_on: Annotated[
        date | None,
        field_spec.day(
            de="Fällig am, Fälligkeit, Fälligkeitsdatum, zahlbar bis, Zahlungsziel, Zahlbar bis zum, bis "
            "zum, bis spätestens, fällig, Zahlung bis, zu zahlen bis",
            en="Due date, Payment due, Due on, Due by, Pay by, Please remit until, Payable by, Payment due "
            "date, Due",
            fr="Date d'échéance, Échéance, À régler avant le, Payable avant le, Date limite de paiement",
            it="Scadenza, Data scadenza, Scadenza pagamento",
            es="Vencimiento, Fecha de vencimiento",
            nl="Vervaldatum, Te betalen voor, Uiterste betaaldatum",
            pt="Data de vencimento, Vencimento, Pagar até",
            pl="Termin płatności, Termin zapłaty",
            da="Forfaldsdato, Betalingsdato, Forfald, Betales senest, Förfallodatum, Förfallodag",
            tr="Vade tarihi, Son ödeme tarihi",
        ),
    ] = None
    currency: Annotated[str | None, field_spec.currency(of="gross")] = None
    net: Annotated[
        Decimal | None,
        field_spec.amount(
            de="Nettobetrag, Netto, Summe netto, Rechnungssumme netto, Zwischensumme, Gesamt netto, "
            "Nettosumme, Rechnungssumme ohne USt, Warenwert?, Positionen netto, Summe exkl. MwSt, "
            "Nettowert, Gesamtbetrag netto, Betrag netto, Total exkl. MwSt, Total netto, "
            "Positionssumme?, Nettogesamtbetrag, Gesamtnetto, Summe?, Rechnungsbetrag netto",
            en="Net total, Net amount, Subtotal, Sub-total, Sub total, Total excl. VAT, Total net, Total "
            "excluding VAT, Amount excl. VAT, Net, Total before tax, Taxable amount, Total ex VAT, Net "
            "value, Total excl. tax, Goods total",
            fr="Total HT, Montant HT, Total hors taxes, Sous-total HT, Sous-total, Montant total HT, Total "
            "net HT, Base HT, Net HT, Total H.T",
            it="Imponibile, Totale imponibile, Totale netto, Totale merce, Subtotale",
            es="Base imponible, Subtotal, Total neto, Importe neto, Suma",
            nl="Subtotaal, Totaal excl. BTW, Netto bedrag, Totaal exclusief BTW, Netto",
            pt="Total líquido, Base tributável, Incidência, Total sem IVA, Valor líquido",
            pl="Wartość netto, Razem netto, Kwota netto, Suma netto",
            da="Subtotal, Netto, Nettobeløb, Beløb ekskl. moms, I alt ekskl. moms, Total ekskl. moms, "
            "Summa exkl. moms, Belopp exkl. moms, Nettobelopp",
            tr="Ara toplam, Matrah, KDV matrahi, Mal hizmet toplam tutari",
        ),
    ] = None
    vat: Annotated[
        Decimal | None,
        field_spec.amount(
            de="USt. Gesamt, Umsatzsteuer gesamt, MwSt gesamt, Mehrwertsteuer gesamt, Steuer gesamt, "
            "Gesamt USt, Gesamt MwSt, Umsatzsteuer, MwSt, Mehrwertsteuer, USt, zzgl. MwSt, zuzüglich "
            "MwSt, zzgl. USt, zuzüglich Umsatzsteuer, Steuerbetrag, MwSt-Betrag, USt-Betrag, Summe "
            "MwSt, Summe USt, Steuern, Steuer, Versicherungsteuer, Versicherungssteuer, Gesamtbetrag "
            "USt, Mehrwertsteuerbetrag, Steuerbetrag in EUR, Summe Umsatzsteuer, Umsatzsteuerbetrag",
            en="VAT, VAT total, VAT amount, Total VAT, Tax, Sales tax, Tax amount, Total tax, GST, Value "
            "added tax, Tax total",
            fr="TVA, Total TVA, Montant TVA, Total taxes, Montant de la TVA, Total T.V.A, T.V.A",
            it="IVA, Totale IVA, Imposta, Totale imposta, Importo IVA",
            es="IVA, Total IVA, Cuota IVA, Importe IVA, Cuota",
            nl="BTW, BTW bedrag, Totaal BTW, BTW-bedrag",
            pt="IVA, Total IVA, Valor do IVA, Total do IVA",
            pl="Kwota VAT, Podatek VAT, Wartość VAT, Kwota podatku, Suma VAT",
            da="Moms, Momsbeløb, Moms i alt, Momsbelopp, MVA, Heraf moms",
            tr="KDV, Hesaplanan KDV, KDV tutari",
        ),
    ] = None
    gross: Annotated[
        Decimal | None,
        field_spec.amount(
            de="Gesamtbetrag, Rechnungsbetrag, Rechnungssumme brutto, Bruttosumme, Bruttobetrag, "
            "Gesamtsumme, Endbetrag, Endsumme, Gesamt brutto, Summe brutto, Gesamt, Total, Summe inkl. "
            "MwSt, Total inkl. MwSt, Rechnungstotal, Rechnungsbeitrag, Zahlbetrag?, Zu zahlender "
            "Betrag?, zu zahlen?, Gesamtpreis, Rechnungssumme, Betrag inkl. MwSt, Rechnungsendbetrag, "
            "Gesamtbetrag brutto, Brutto, Gesamtbetrag inkl. MwSt, "
            "Summe?, Betrag?, Rechnungssumme mit USt, Gesamtbetrag EUR, Offener Betrag?, Rechnungsbetrag "
            "brutto, Total CHF, Gesamtrechnungsbetrag, Zahlungsbetrag?, Fälliger Betrag?",
            en="Total, Grand total, Total amount, Amount due?, Total due?, Balance due?, Invoice total, "
            "Total incl. VAT, Total including VAT, Amount payable, Due payable?, Total payable, Gross "
            "total, Gross amount, Total to pay, Invoice amount, Total incl. tax, Please pay?, Amount?, "
            "Total GBP, Total EUR, Total USD",
            fr="Total TTC, Montant TTC, Net à payer, Montant total TTC, Total à payer, Solde à payer?, "
            "Montant à payer?, Total général, Total T.T.C, Montant total, Total?, À payer",
            it="Totale, Totale fattura, Totale documento, Totale da pagare, Importo totale, Netto a "
            "pagare, Totale dovuto",
            es="Total, Total factura, Total a pagar, Importe total, Total con IVA",
            nl="Totaal, Totaal incl. BTW, Te betalen?, Totaalbedrag, Totaal te betalen, Totaal inclusief "
            "BTW, Factuurbedrag",
            pt="Total, Total a pagar, Total da fatura, Valor total, Total com IVA, Total do documento",
            pl="Razem, Wartość brutto, Kwota brutto, Suma brutto, Do zapłaty, Razem do zapłaty, Ogółem",
            da="I alt, Total, Beløb i alt, I alt inkl. moms, Total inkl. moms, At betale, Summa, Att betala, "
            "Totalt, Å betale, Totalbeløb, Fakturabeløb, Summa inkl. moms",
            tr="Genel toplam, Ödenecek tutar, Toplam tutar, Vergiler dahil toplam tutar, Toplam?",
        ),
    ] = None
    prepaid: Annotated[
        Decimal | None,
        field_spec.amount(
            is_explicit=True,
            de="Anzahlung, Erhaltene Anzahlungen, Erhaltene Anzahlung, Geleistete Anzahlung, abzüglich "
            "Anzahlung, abzgl. Anzahlung, Abschlagszahlung, Abschlagszahlungen, Vorauszahlung, bereits "
            "gezahlt, bereits bezahlt, Geleistete Zahlungen, Vorausbezahlt",
            en="Deposit, Deposit paid, Less deposit, Amount paid, Already paid, Payments received, Payment "
            "received, Less payments, Prepaid, Prepaid amount, Prepayment, Advance payment, Paid to date",
            fr="Acompte, Acompte versé, Acomptes versés, Déjà réglé, Déjà payé, Montant réglé",
            it="Acconto, Acconto versato, Già pagato",
            es="Anticipo, Importe pagado, Pagado a cuenta, Entrega a cuenta",
            nl="Aanbetaling, Reeds betaald, Reeds voldaan, Vooruitbetaald, Vooruitbetaling",
            pt="Adiantamento, Já pago",
            pl="Zapłacono, Zaliczka",
            da="Forudbetalt, Modtaget betaling, A conto, Allerede betalt",
        ),
    ] = None
    payable: Annotated[
        Decimal | None,
        field_spec.amount(
            is_explicit=True,
            de="Zahlbetrag, Zu zahlender Betrag, Noch zu zahlen, Noch zu zahlender Betrag, Zahlungsbetrag, "
            "Fälliger Betrag, Offener Betrag, Restbetrag, Restzahlung, Restforderung, Verbleibender Betrag",
            en="Amount due, Total amount due, Balance due, Total due, Amount payable, Due payable, "
            "Amount outstanding, Outstanding amount, Outstanding balance, Balance to pay",
            fr="Net à payer, Solde à payer, Reste à payer, Montant à payer, Montant dû, Solde dû",
            it="Netto a pagare, Totale da pagare, Totale dovuto, Importo dovuto, Residuo da pagare, "
            "Saldo da pagare",
            es="Total a pagar, Importe a pagar, Importe pendiente, Saldo pendiente, Pendiente de pago, "
            "Resto a pagar",
            nl="Te betalen, Totaal te betalen, Nog te betalen, Openstaand bedrag, Te voldoen",
            pt="Total a pagar, Valor a pagar, Valor em dívida, Em dívida",
            pl="Do zapłaty, Pozostało do zapłaty",
            da="At betale, Att betala, Å betale, Til betaling, Restbeløb, Restbelopp",
            tr="Ödenecek tutar",
        ),
    ] = None
    vat_rates: Annotated[tuple[VatAmount, ...] | None, field_spec.rates()] = None
    iban: Annotated[
        str | None,
        field_spec.iban(
            de="IBAN, Bankverbindung, Konto, Unsere Bankverbindung, Bankkonto",
            en="IBAN, Bank account, Account, Bank details",
            fr="IBAN, Compte, RIB, Coordonnées bancaires",
            it="IBAN, Coordinate bancarie",
            es="IBAN, Cuenta",
            nl="IBAN, Rekening",
        ),
    ] = None
    purchase_order: Annotated[
        str | None,
        field_spec.code(
            de="Bestellnummer, Bestell-Nr, Ihre Bestellung, Ihre Bestellnummer, Bestellung Nr. Kunde, "
            "Bestellung Nr, Bestellung, Ihre Auftragsnummer, Ihr Auftrag, Ihre Bestellung Nr, Ihre "
            "Referenz?, Auftragsnummer?, Auftrags-Nr?",
            en="Purchase order, PO number, PO No, PO, P.O. number, Your order, Order number, Order no, "
            "Customer order, Your order no, Your reference?, Customer PO",
            fr="N° bon de commande, Bon de commande, N° de commande, Votre commande, Commande N°, Numéro "
            "de commande, Commande, Votre référence?",
            it="Ordine, Numero ordine, Vs. ordine, Ordine n",
            es="Pedido, Número de pedido, Nº pedido, Su pedido",
            nl="Ordernummer, Uw order, Bestelnummer, Inkooporder, Uw ordernummer",
            pl="Nr zamówienia, Numer zamówienia",
            da="Ordrenr, Ordrenummer, Indkøbsordre, Rekvisition, Ordernr",
        ),
    ] = None
    lines: Annotated[tuple[InvoiceLine, ...] | None, field_spec.lines()] = None


_CREDIT_TITLES: Final = (
    "*gutschrift, Gutschriftsanzeige, Gutschriftsnummer, Gutschriftsbeleg, Rechnungskorrektur, "
    "Korrekturrechnung, Credit note, Credit memo, Credit memorandum, Credit invoice, Credit adjustment, "
    "Sales credit, Avoir, Note de crédit, Nota di credito, Nota credito, Nota di accredito, "
    "Nota accredito, Creditnota, Creditfactuur, Credit factuur, Nota de crédito, Nota de abono, Abono, "
    "Factura de abono, Factura rectificativa, Kreditnota, Kreditfaktura, Kreditnote, Kreditrechnung, "
    "Faktura korygująca, Korekta, Iade faturasi"
)
# Labels of the invoice that a credit note refers to.
_ORIGINAL_INVOICE: Final = (
    "Ursprungsrechnung, Originalrechnung, zu Rechnung, zu Rechnung Nr, Bezug Rechnung, Bezugsrechnung, "
    "Storno zu Rechnung, Korrektur zu Rechnung, Korrektur der Rechnung, Gutschrift zu Rechnung, "
    "Original invoice, Original invoice no, Original invoice number, Relates to invoice, Related invoice, "
    "Credit for invoice, Credit for invoice no, Against invoice, Invoice credited, Credited invoice, "
    "Re invoice, Facture d'origine, Facture initiale, Réf. facture initiale, Facture concernée, "
    "Sur facture, Sur facture N°, Avoir sur facture, Annule la facture, Fattura originale, Rif. fattura, "
    "Rif. fattura n, Riferimento fattura, Storno fattura, Factura original, Factura rectificada, "
    "Rectifica la factura, Rectifica a la factura, Abono de la factura, Betreft factuur, "
    "Oorspronkelijke factuur, Credit op factuur, Do faktury, Do faktury nr, Faktura korygowana, "
    "Korekta do faktury, Korekta do faktury nr, Dotyczy faktury, Vedr. faktura, Vedrørende faktura, "
    "Krediterer faktura, Avser faktura, Gjelder faktura, Fatura de origem, Fatura original, "
    "Referente à fatura"
)
INVOICE: Final = DocumentKind(
    name="invoice",
    model=Invoice,
    titles="*rechnung, *abrechnung?, Rechnung, Faktura, Invoice, Tax invoice, Bill, Facture, Fattura, "
    f"Factura, Factuur, Fatura, Faktura VAT, e-Fatura, {_CREDIT_TITLES}",
    required=("supplier", "number", "issued_on", "currency", "gross"),
    identity=("supplier", "number"),
    identity_alternatives={"supplier": ("vat_id", "iban")},
    key=("supplier", "number"),
    relations=(SumRelation("net", "vat", "gross"), BalanceRelation("gross", "prepaid", "payable")),
    table_sums=(TableSum("vat_rates", "vat", "vat"), TableSum("vat_rates", "net", "net")),
    ignored_labels="Kundennummer, Kunden-Nr, Kunden Nr, Kd-Nr, Kunde, Customer number, Customer no, "
    "Customer ID, Customer, Client number, Account number, N° client, N° de client, Code client, "
    "Numéro client, "
    "Klantnummer, Codice cliente, Número de cliente, "
    "Lieferschein, Lieferschein-Nr, Lieferscheinnummer, Lieferschein-Datum, Delivery note, Bon de "
    "livraison, N° bon de livraison, Steuernummer, St-Nr, Steuer-Nr, Tax number, SIRET, SIREN, HRB, HRA, "
    "Handelsregister*, BIC, SWIFT, BLZ, Bankleitzahl, Tel, Telefon, Phone, Fax, Telefax, Mobil, Telephone, "
    "Pos, Art-Nr, Artikelnummer, Artikel-Nr, Item, Projekt-Nr, Projekt, Vertrag, Vertragsnummer, Contract, "
    "N° contrat, Bestelldatum, Bestell-Datum, Bestellung vom, Order date, Auftragsdatum, Date de commande, "
    "Skonto, Rabatt, Discount, Remise, Versandkosten, Versand, "
    "Shipping, Porto, Frais de port, "
    "Druckdatum, Printed on, Seite, Page, Menge, Einzelpreis, Unit price, Quantity, Preis, Prix unitaire, "
    "Quantité, GLN, Datum der Bestellung, Zahlungsart, Valuta, Mandatsreferenz, Gläubiger-ID, "
    "Ursprungsbeleg-Nr, N° de facture associée, Date de facture associée, Version, Kapital, capital, "
    "Abrechnungszeitraum, Zeitraum, period, Cash, Change, Rounding, Rounding adj, Tendered, Bar gegeben, "
    "Gegeben, Rückgeld, Rundung, Espèces, Rendu, Arrondi, Contante, Resto, Wisselgeld, Data ordine, "
    "Fecha de pedido, Fecha pedido, Orderdatum, Besteldatum, Data da encomenda, Data do pedido, "
    "Data zamówienia, Ordredato, Ritenuta d'acconto, Ritenuta, Retención, IRPF, Withholding tax, Einbehalt, "
    f"Sicherheitseinbehalt, Retenue de garantie, Order placed on, {_ORIGINAL_INVOICE}",
    excluded_titles="Mahnung, Zahlungserinnerung, Proforma*, Pro-forma*, Storno*, Stornierung, Angebot, "
    "Payment reminder, Reminder, Quotation, Devis, Rappel, Relance, Offerte, Preventivo, Presupuesto, "
    f"Aanmaning, {_CREDIT_TITLES}",
    credit_titles=_CREDIT_TITLES,
    certain=("iban", "due_on"),
    controls=AccountingControls(
        dates=("issued_on", "due_on"), account="iban", amount="gross", addressee="buyer"
    ),
)
