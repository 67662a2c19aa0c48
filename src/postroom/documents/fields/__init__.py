"""Reading the fields of a document: from its text, from e-invoice XML, or by a language model."""
