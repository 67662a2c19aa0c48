"""The words of generated documents, in six languages. Phrases of one meaning are separated by a bar.

The last phrase of some lists is one that no kind declares, so that documents exist which are hard to read.
"""

from typing import Final

Words = dict[str, str]

LANGUAGES: Final = ("de", "en", "fr", "it", "es", "nl")

INVOICE: Final[dict[str, Words]] = {
    "de": {
        "title": "Rechnung|RECHNUNG|Handelsrechnung|Rechnung / Lieferschein|Schlussrechnung|"
        "Abschlagsrechnung|Gutschrift|Honorarnote",
        "number": "Rechnungsnummer|Rechnungs-Nr.|Rechnung Nr.|Rg.-Nr.|Belegnummer|Rechnung|Vorgang",
        "date": "Rechnungsdatum|Datum|Belegdatum|Rechnung vom|Ausgestellt",
        "due": "Zahlbar bis|Fällig am|Fälligkeit|Zahlungsziel",
        "delivered": "Lieferdatum|Leistungsdatum",
        "customer": "Kundennummer|Kunden-Nr.|Kd.-Nr.",
        "order": "Ihre Bestellnummer|Bestell-Nr.|Ihr Auftrag",
        "net": "Nettobetrag|Zwischensumme|Summe netto|Gesamt netto|Warenwert ohne Abgaben",
        "vat": "zzgl. {rate} % MwSt.|{rate} % USt.|Umsatzsteuer {rate}%|MwSt. {rate} % auf {net}|Abgabe "
        "{rate} %",
        "gross": "Gesamtbetrag|Rechnungsbetrag|Endbetrag|Summe brutto|Gesamtsumme|Zu zahlen|Summe aller "
        "Posten",
        "vat_id": "USt-IdNr.|UID|Umsatzsteuer-ID",
        "bank": "Bankverbindung|Bank",
        "table": "Pos. Bezeichnung Menge Einzelpreis Gesamtpreis|Artikel Anzahl Preis Betrag|Leistung "
        "Menge Einheit Preis Summe",
        "thanks": "Vielen Dank für Ihren Auftrag.|Bitte überweisen Sie den Betrag ohne Abzug.|Wir bedanken "
        "uns für die gute Zusammenarbeit.",
        "to": "Rechnungsempfänger|Rechnung an|",
    },
    "en": {
        "title": "Invoice|INVOICE|Tax invoice|Sales invoice|Pro rata invoice|Credit note",
        "number": "Invoice number|Invoice no.|Invoice #|Invoice|Document no.|Our reference",
        "date": "Invoice date|Date|Date of issue|Issued on|Raised",
        "due": "Due date|Payment due|Pay by",
        "delivered": "Delivery date|Date of supply",
        "customer": "Customer number|Account no.|Customer ID",
        "order": "Your order|PO number|Purchase order",
        "net": "Subtotal|Net total|Total excl. VAT|Net amount|Goods",
        "vat": "VAT {rate}%|VAT @ {rate}%|Plus {rate} % VAT|Duty at {rate} %",
        "gross": "Total|Total due|Amount due|Grand total|Total incl. VAT|Invoice total|Sum of the above",
        "vat_id": "VAT ID|VAT Reg. No.|VAT number",
        "bank": "Bank details|Please pay to",
        "table": "Item Description Qty Unit price Amount|Description Quantity Price Total",
        "thanks": "Thank you for your business.|Payment within 30 days.|Please quote the invoice number.",
        "to": "Bill to|Invoice to|",
    },
    "fr": {
        "title": "Facture|FACTURE|Facture de vente|Facture d'acompte|Avoir",
        "number": "Facture N°|N° de facture|Numéro de facture|Facture|Pièce",
        "date": "Date de facture|Date|Date d'émission|Établie le",
        "due": "Date d'échéance|Échéance|À régler avant le",
        "delivered": "Date de livraison",
        "customer": "N° client|Code client",
        "order": "Votre commande|N° de commande|Bon de commande",
        "net": "Total HT|Montant HT|Sous-total|Valeur des articles",
        "vat": "TVA {rate} %|TVA à {rate}%|Montant TVA {rate} %|Taxe de {rate} %",
        "gross": "Total TTC|Net à payer|Montant TTC|Total à payer|Somme des lignes",
        "vat_id": "N° TVA|TVA intracommunautaire",
        "bank": "Coordonnées bancaires|Règlement par virement",
        "table": "Désignation Qté Prix unitaire Montant|Article Quantité P.U. Total",
        "thanks": "Nous vous remercions de votre confiance.|Règlement à 30 jours.",
        "to": "Facturé à|Client|",
    },
    "it": {
        "title": "Fattura|FATTURA",
        "number": "Numero fattura|Fattura n.|Documento",
        "date": "Data fattura|Data",
        "due": "Scadenza|Data scadenza",
        "delivered": "Data consegna",
        "customer": "Codice cliente",
        "order": "Vs. ordine|Ordine n.",
        "net": "Imponibile|Totale imponibile|Valore merce",
        "vat": "IVA {rate}%|Imposta {rate} %",
        "gross": "Totale fattura|Totale|Totale da pagare|Somma finale",
        "vat_id": "Partita IVA|P. IVA",
        "bank": "Coordinate bancarie",
        "table": "Descrizione Quantità Prezzo Importo",
        "thanks": "Grazie per la fiducia.",
        "to": "Spett.le|Cliente",
    },
    "es": {
        "title": "Factura|FACTURA",
        "number": "Factura N°|Número de factura|Documento",
        "date": "Fecha de factura|Fecha",
        "due": "Vencimiento",
        "delivered": "Fecha de entrega",
        "customer": "Número de cliente",
        "order": "Su pedido|Nº pedido",
        "net": "Base imponible|Subtotal|Valor de los artículos",
        "vat": "IVA {rate}%|Cuota {rate} %",
        "gross": "Total factura|Total a pagar|Total|Suma final",
        "vat_id": "NIF|CIF",
        "bank": "Cuenta",
        "table": "Descripción Cantidad Precio Importe",
        "thanks": "Gracias por su confianza.",
        "to": "Cliente|",
    },
    "nl": {
        "title": "Factuur|FACTUUR",
        "number": "Factuurnummer|Factuurnr.|Kenmerk",
        "date": "Factuurdatum|Datum",
        "due": "Vervaldatum|Te betalen voor",
        "delivered": "Leverdatum",
        "customer": "Klantnummer",
        "order": "Uw order|Ordernummer",
        "net": "Subtotaal|Totaal excl. BTW|Waarde goederen",
        "vat": "BTW {rate}%|Belasting {rate} %",
        "gross": "Totaal incl. BTW|Te betalen|Totaal|Eindsom",
        "vat_id": "BTW-nummer",
        "bank": "Rekening",
        "table": "Omschrijving Aantal Prijs Bedrag",
        "thanks": "Bedankt voor uw opdracht.",
        "to": "Factuuradres|",
    },
}

NOTE: Final[dict[str, Words]] = {
    "de": {
        "title": "Wertpapierabrechnung|Wertpapier Abrechnung|Abrechnung|Börsenabrechnung|"
        "Effektenabrechnung|Fondsabrechnung|Transaktionsabrechnung",
        "buy": "Kauf|Wertpapierkauf|Ihr Kauf|Zeichnung|Ausgabe Investmentfonds",
        "sell": "Verkauf|Wertpapierverkauf|Ihr Verkauf|Rücknahme",
        "account": "Depotnummer|Depot-Nr.|Depot|Portfolio-Nr.",
        "traded": "Schlusstag|Handelstag|Ausführungstag|Geschäftstag|Schlusstag/-Zeit|Ausführung|Abgewickelt",
        "settled": "Valuta|Wertstellung|Valutadatum|Fällig am",
        "ordered": "Auftragsdatum|Auftrag vom",
        "quantity": "Stück|Nominale|Menge|Anzahl|Anteile|Nominal|Volumen",
        "price": "Kurs|Ausführungskurs|Preis|Kurs pro Stück|Notiz",
        "gross": "Kurswert|Bruttobetrag|Betrag|Handelswert",
        "fee": "Provision|Courtage|Orderentgelt|Börsengebühr|Fremde Spesen|Aufwand",
        "tax": "Kapitalertragsteuer|Stempelsteuer|Finanztransaktionssteuer",
        "net_buy": "Ausmachender Betrag|Endbetrag|Zu Ihren Lasten|Belastung|Total belastet|Summe nach Kosten",
        "net_sell": "Ausmachender Betrag|Endbetrag|Zu Ihren Gunsten|Gutschrift|Total gutgeschrieben|Summe "
        "nach Kosten",
        "security": "Wertpapierbezeichnung|Wertpapier|Titel|Fondsname",
        "venue": "Handelsplatz|Börse|Ausführungsplatz",
        "rate": "Devisenkurs|Umrechnungskurs|Wechselkurs",
        "done_buy": "Wir haben für Sie gekauft|Wir haben am {date} für Sie gekauft",
        "done_sell": "Wir haben für Sie verkauft|Wir haben am {date} für Sie verkauft",
        "balance": "Bestand|Neuer Bestand",
    },
    "en": {
        "title": "Contract note|CONTRACT NOTE|Trade confirmation|Transaction notification|Deal confirmation",
        "buy": "Bought|Buy|Purchase|You bought",
        "sell": "Sold|Sell|Sale|You sold",
        "account": "Account number|Account|Client account",
        "traded": "Trade date|Deal date|Execution date|Date of execution|Dealt",
        "settled": "Settlement date|Value date",
        "ordered": "Order date",
        "quantity": "Quantity|Number of shares|Units|Shares|Volume",
        "price": "Price|Unit price|Dealing price|Quote",
        "gross": "Consideration|Gross amount|Principal|Turnover",
        "fee": "Commission|Dealing charge|Broker fee|Exchange fee|Outlay",
        "tax": "Stamp duty|Transaction tax|Withholding tax",
        "net_buy": "Total debit|Net amount|Amount due|Total cost|After costs",
        "net_sell": "Total credit|Net amount|Net proceeds|Total proceeds|After costs",
        "security": "Security|Stock|Instrument|Security name",
        "venue": "Venue|Market|Place of execution",
        "rate": "Exchange rate|FX rate",
        "done_buy": "We have bought for you as agent",
        "done_sell": "We have sold for you as agent",
        "balance": "Holding after this deal",
    },
    "fr": {
        "title": "Avis d'opéré|Avis d'opération|Opération de bourse|Avis d'exécution",
        "buy": "Achat|ACHAT COMPTANT|Souscription",
        "sell": "Vente|VENTE COMPTANT|Rachat",
        "account": "Compte titres|N° de compte",
        "traded": "Date d'exécution|Date de négociation|Date de l'opération|Traité",
        "settled": "Date de valeur|Date de règlement",
        "ordered": "Date de l'ordre",
        "quantity": "Quantité|Nombre de titres|Nombre de parts|Volume",
        "price": "Cours|Cours d'exécution|Prix|Cote",
        "gross": "Montant brut|Montant de l'opération|Chiffre",
        "fee": "Courtage|Commission|Frais divers|Débours",
        "tax": "Taxe sur les transactions financières|TTF",
        "net_buy": "Montant net au débit|Net à débiter|Montant net|Après frais",
        "net_sell": "Montant net au crédit|Net à créditer|Montant net|Après frais",
        "security": "Valeur|Désignation|Libellé",
        "venue": "Lieu d'exécution|Marché",
        "rate": "Taux de change|Cours de change",
        "done_buy": "Nous avons acheté pour votre compte",
        "done_sell": "Nous avons vendu pour votre compte",
        "balance": "Solde en titres",
    },
    "it": {
        "title": "Nota informativa|Conferma di esecuzione",
        "buy": "Acquisto|Sottoscrizione",
        "sell": "Vendita|Rimborso",
        "account": "Deposito titoli|Conto",
        "traded": "Data esecuzione|Data operazione",
        "settled": "Valuta|Data regolamento",
        "ordered": "Data ordine",
        "quantity": "Quantità|Numero titoli",
        "price": "Prezzo|Prezzo medio",
        "gross": "Controvalore|Importo lordo",
        "fee": "Commissioni|Spese",
        "tax": "Imposta|Tobin tax",
        "net_buy": "Totale a Vs. Debito|Importo netto|Totale",
        "net_sell": "Totale a Vs. Credito|Importo netto|Totale",
        "security": "Titolo|Strumento",
        "venue": "Mercato",
        "rate": "Cambio",
        "done_buy": "Vi confermiamo l'acquisto",
        "done_sell": "Vi confermiamo la vendita",
        "balance": "Saldo titoli",
    },
    "es": {
        "title": "Liquidación de valores|Aviso de operación",
        "buy": "Compra|COMPRA DE VALORES",
        "sell": "Venta|VENTA DE VALORES",
        "account": "Cuenta de valores",
        "traded": "Fecha ejecución|Fecha operación",
        "settled": "Fecha valor|Fecha liquidación",
        "ordered": "Fecha orden",
        "quantity": "Títulos|Cantidad|Nº de valores",
        "price": "Precio|Precio unitario",
        "gross": "Importe efectivo|Efectivo",
        "fee": "Comisión|Corretaje|Gastos",
        "tax": "Impuesto|ITF",
        "net_buy": "Importe total|Importe líquido|Total",
        "net_sell": "Importe total|Importe líquido|Total",
        "security": "Valor|Nombre del valor",
        "venue": "Mercado",
        "rate": "Cambio divisa",
        "done_buy": "Hemos comprado por su cuenta",
        "done_sell": "Hemos vendido por su cuenta",
        "balance": "Saldo de títulos",
    },
    "nl": {
        "title": "Transactienota|Overzicht transactie|Effectennota",
        "buy": "Aankoop|Koop",
        "sell": "Verkoop",
        "account": "Effectenrekening|Rekening",
        "traded": "Uitvoeringsdatum|Transactiedatum",
        "settled": "Valutadatum|Afrekendatum",
        "ordered": "Datum order",
        "quantity": "Aantal|Aantal stuks",
        "price": "Koers|Prijs",
        "gross": "Brutobedrag|Effectief bedrag",
        "fee": "Makelaarsloon|Kosten|Provisie",
        "tax": "Beurstaks|Taks",
        "net_buy": "Netto bedrag|Te betalen|Nettobedrag",
        "net_sell": "Netto bedrag|Nettobedrag",
        "security": "Effect|Naam",
        "venue": "Plaats van uitvoering",
        "rate": "Wisselkoers",
        "done_buy": "Wij hebben voor u gekocht",
        "done_sell": "Wij hebben voor u verkocht",
        "balance": "Nieuw saldo",
    },
}

# Papers that are neither: their titles and sentences. Many have amounts, dates and account numbers too.
OTHERS: Final[dict[str, tuple[str, ...]]] = {
    "de": (
        "Lieferschein|Wir liefern Ihnen wie folgt|Lieferscheinnummer|Menge Artikel Gewicht",
        "Angebot|Wir bieten Ihnen freibleibend an|Angebotsnummer|Gültig bis",
        "Zahlungserinnerung|Zu unserer Rechnung fehlt uns noch Ihre Zahlung|Mahngebühr|Offener Posten",
        "Mahnung|Leider konnten wir keinen Zahlungseingang feststellen|Mahnstufe|Verzugszinsen",
        "Auftragsbestätigung|Wir bestätigen Ihren Auftrag|Auftragsnummer|Liefertermin",
        "Bestellung|Hiermit bestellen wir|Bestellnummer|Wunschtermin",
        "Dividendengutschrift|Ausschüttung je Anteil|Zahlbarkeitstag|Ex-Tag",
        "Ertragsgutschrift|Dividende pro Stück|Bestandsstichtag|Bruttobetrag Ausschüttung",
        "Ausschüttung Investmentfonds|Ausschüttung pro Stück|Zahlbarkeitstag|Ertragsthesaurierung",
        "Dividendenabrechnung|Bardividende|Dividendensatz|Ex-Datum",
        "Dividende|Ihre Dividende|Dividende pro Aktie|Quellensteuer auf Dividende",
        "Zinsgutschrift|Kuponzahlung|Zinsperiode|Nominalzins",
        "Coupon|Couponzahlung|Kapitalrückzahlung|Verrechnungssteuer",
        "Rückzahlung bei Fälligkeit|Einlösung|Verfall|Wertlose Ausbuchung",
        "Steuerliche Behandlung|Steuerliche Behandlung des Kaufs|Steuer auf Dividende|Bemessungsgrundlage",
        "Verwaltungsgebühr|Belastung der Verwaltungskommission|Periode|Gebühren",
        "Einzahlung|Gutschrift Ihrer Einzahlung|Prämie|Auszahlung",
        "Kontoauszug|Alter Saldo|Neuer Saldo|Buchungstag Wertstellung Verwendungszweck",
        "Zinsabrechnung|Zinsen für Guthaben|Zinssatz|Abschluss per",
        "Depotauszug|Ihr Bestand zum Stichtag|Kurswert der Position|Depotwert gesamt",
        "Steuerbescheinigung|Höhe der Kapitalerträge|Anrechenbare Steuer|Bescheinigung für das Jahr",
        "Vorabpauschale|Steuerliche Abrechnung der Vorabpauschale|Basiszins|Steuerpflichtiger Betrag",
        "Steuermitteilung|Informationen zur steuerlichen Behandlung|Verlusttopf|Freistellungsauftrag",
        "Kontogebühr|Abrechnung der Depotgebühren|Quartal|Entgelt für Verwahrung",
        "Kapitalmaßnahme|Umtausch im Verhältnis|Einbuchung|Ausbuchung",
        "Depotübertrag|Eingang von Wertpapieren|Übertrag|abgebende Bank",
        "Mietvertrag|Zwischen Vermieter und Mieter|Kaltmiete|Kündigungsfrist",
        "Gehaltsabrechnung|Bruttolohn|Lohnsteuer|Sozialversicherung",
        "Versicherungsschein|Versicherungsnehmer|Deckungssumme|Jahresbeitrag",
        "Einladung|Wir laden Sie herzlich ein|Programm|Anmeldung",
        "Lebenslauf|Berufserfahrung|Ausbildung|Kenntnisse",
        "Protokoll|Tagesordnung|Beschlüsse|Anwesende",
        "Unser neues Programm|Entdecken Sie unsere Angebote|nur solange der Vorrat reicht|Rabatt",
        "Ordereingangsbestätigung|Wir haben Ihre Order erhalten|Limit|Gültigkeit",
        "Kostenvoranschlag|Voraussichtliche Kosten|unverbindlich|Arbeitszeit",
        "Spendenbescheinigung|Zuwendungsbestätigung|gemeinnützig|Betrag der Zuwendung",
        "Kreditkartenabrechnung|Umsätze im Zeitraum|Kartennummer|Saldo",
        "Kosteninformation|Ex-ante Kosten|Zuwendungen|Auswirkung auf die Rendite",
        "Sparplan eingerichtet|Ihre Sparrate|Turnus|Erste Ausführung",
    ),
    "en": (
        "Delivery note|We are delivering to you|Delivery note number|Weight",
        "Quotation|We are pleased to quote|Quote number|Valid until",
        "Payment reminder|Your payment has not reached us|Overdue|Outstanding balance",
        "Order confirmation|We confirm your order|Order number|Expected delivery",
        "Purchase order|Please supply the following|Required by|Ship to",
        "Dividend payment|Dividend per share|Record date|Payment date",
        "Dividend|Cash dividend|Gross dividend|Withholding tax on dividend",
        "Option expiry|Expired worthless|Exercise|Assignment",
        "Tax treatment|Taxable amount|Loss pot|Allowance",
        "Administration fee|Fee charged|Period|Management fee",
        "Distribution notice|Income per unit|Ex-dividend date|Tax credit",
        "Account statement|Opening balance|Closing balance|Date Description Debit Credit",
        "Interest statement|Interest earned|Rate|Period",
        "Portfolio valuation|Holdings as at|Market value|Total portfolio",
        "Tax certificate|Tax year|Gross income|Tax deducted",
        "Fee statement|Custody fee|Quarter|Charge",
        "Corporate action|Exchange of shares|Ratio|New shares",
        "Transfer confirmation|Securities received|Transferred from|Free of payment",
        "Tenancy agreement|Landlord and tenant|Rent|Notice period",
        "Payslip|Gross pay|National insurance|Net pay",
        "Insurance certificate|Policy holder|Sum insured|Premium",
        "Invitation|You are invited|Agenda|Please reply",
        "Curriculum vitae|Experience|Education|Skills",
        "Minutes|Those present|Resolved|Next meeting",
        "Our new range|Discover|while stocks last|Special offer",
        "Order received|We have received your order to buy|Limit|Good until",
        "Deposit confirmation|We have credited|Cash deposit|Available balance",
        "Card statement|Transactions in the period|Card number|Minimum payment",
        "Costs and charges|Ex-ante|Impact on return|Ongoing charges",
        "Terms and conditions|These terms apply|Liability|Governing law",
    ),
    "fr": (
        "Bon de livraison|Nous vous livrons|N° de bon|Poids",
        "Devis|Nous vous proposons|Devis N°|Valable jusqu'au",
        "Rappel|Votre règlement ne nous est pas parvenu|Impayé|Pénalités",
        "Confirmation de commande|Nous confirmons votre commande|Délai|Livraison prévue",
        "Avis de dividende|Dividende brut|Dividende net|Crédit d'impôt",
        "Encaissement de coupon|Coupon brut|Prélèvement forfaitaire|Montant du coupon",
        "Frais de gestion|Frais prélevés|Période|Commission de gestion",
        "Remboursement|Titre échu|Échéance|Nominal remboursé",
        "Coupon|Dividende par action|Date de détachement|Date de paiement",
        "Relevé de compte|Ancien solde|Nouveau solde|Date Libellé Débit Crédit",
        "Relevé de portefeuille|Vos avoirs au|Valorisation|Total du portefeuille",
        "Intérêts créditeurs|Taux|Période|Intérêts acquis",
        "Imprimé fiscal unique|Revenus de capitaux mobiliers|Année|Prélèvements",
        "Droits de garde|Facturation trimestrielle des droits|Trimestre|Prélèvement",
        "Bulletin de paie|Salaire brut|Cotisations|Net imposable",
        "Contrat de location|Le bailleur et le locataire|Loyer|Préavis",
        "Attestation d'assurance|Assuré|Garanties|Prime",
        "Invitation|Nous vous invitons|Programme|Réponse souhaitée",
        "Opération sur titres|Regroupement|Parité|Titres nouveaux",
        "Notre nouvelle gamme|Découvrez|dans la limite des stocks|Offre",
        "Procès-verbal|Étaient présents|Résolution|Ordre du jour",
        "Virement reçu|Votre compte a été crédité|Donneur d'ordre|Référence",
    ),
    "it": (
        "Documento di trasporto|Vi consegniamo|Peso|Colli",
        "Preventivo|Vi proponiamo|Validità|Offerta",
        "Sollecito di pagamento|Non risulta il pagamento|Scaduto|Interessi",
        "Estratto conto|Saldo iniziale|Saldo finale|Data Descrizione Dare Avere",
        "Dividendo|Dividendo per azione|Data stacco|Data pagamento",
        "Stacco cedola|Cedola lorda|Ritenuta|Netto cedola",
        "Conferma d'ordine|Confermiamo il Vostro ordine|Consegna|Quantità",
    ),
    "es": (
        "Albarán|Le entregamos|Peso|Bultos",
        "Presupuesto|Le ofrecemos|Validez|Oferta",
        "Recordatorio de pago|No hemos recibido su pago|Vencido|Recargo",
        "Extracto de cuenta|Saldo anterior|Saldo actual|Fecha Concepto Cargo Abono",
        "Abono de dividendos|Dividendo por acción|Fecha de pago|Retención",
        "Comisión de custodia|Periodo|Base de cálculo|Cargo en cuenta",
        "Confirmación de pedido|Confirmamos su pedido|Entrega|Cantidad",
    ),
    "nl": (
        "Pakbon|Wij leveren u|Gewicht|Colli",
        "Offerte|Wij bieden u aan|Geldig tot|Aanbieding",
        "Betalingsherinnering|Wij hebben uw betaling niet ontvangen|Openstaand|Rente",
        "Rekeningafschrift|Vorig saldo|Nieuw saldo|Datum Omschrijving Af Bij",
        "Dividend|Dividend per aandeel|Ex-datum|Betaaldatum",
        "Coupon|Brutocoupon|Roerende voorheffing|Nettocoupon",
        "Orderbevestiging|Wij bevestigen uw order|Levertijd|Aantal",
    ),
}

FIRMS: Final = (
    "Nordwind|Kieselbach|Lindenhof|Sonnental|Weberknecht|Brightwater|Oakfield|Silverline|Harborough|"
    "Fernhill|Maison Claire|Atelier du Pont|Beaulieu|Rivière|Studio Verde|Monteverde|Casa Nueva|Río Alto|"
    "De Linde|Waterkant|Alpenrose|Bergquell|Tannwald|Steinadler|Morgenrot"
)
BRANCHES: Final = (
    "Logistik|Druck|Software|Handel|Energie|Bau|Consulting|Services|Papier|Technik|Foods|Textil|Medien|"
    "Systems|Elektro"
)
FORMS: Final[dict[str, str]] = {
    "de": "GmbH|AG|GmbH & Co. KG|e.K.|KG|UG (haftungsbeschränkt)",
    "en": "Ltd|Limited|LLC|Inc.|plc",
    "fr": "SARL|SAS|SA|EURL",
    "it": "S.r.l.|S.p.A.",
    "es": "S.L.|S.A.",
    "nl": "B.V.|N.V.",
}
BROKERS: Final = (
    "Rotklee Bank|Morgentau Broker|Talblick Depotbank|Larchmont Securities|Kestrel Dealing|Banque du Lac|"
    "Courtage Soleil|Banca del Colle|Banco del Puerto|Effectenhuis Zuid|Seeblick Privatbank|Granitbank|"
    "Wellenreiter Invest"
)
SECURITIES: Final = (
    "Nordstern Industrie AG Inhaber-Aktien o.N.|Global Equity UCITS ETF Acc|Brightwater Energy plc "
    "Ordinary|Lumen Solaire SA Action|World Index Fund Anteile A|Hightower Systems Inc. Registered Shares|"
    "Alpine Bond Fund thes.|Maritima Holding N.V.|Euro Government Bond ETF|Pacific Growth Fund Class B"
)
STREETS: Final = (
    "Ahornweg|Lindenallee|Hauptstraße|Mill Lane|High Street|rue des Lilas|avenue du Parc|Via Roma|Calle "
    "Mayor|Dorpsstraat|Seestrasse|Am Markt"
)
PLACES: Final[dict[str, str]] = {
    "de": "20095 Hamburg|50667 Köln|80331 München|8002 Zürich|1010 Wien",
    "en": "London EC2V 7AA|Leeds LS1 4DY|Dublin 2",
    "fr": "75002 Paris|69001 Lyon|1204 Genève",
    "it": "20121 Milano|10121 Torino",
    "es": "28013 Madrid|08002 Barcelona",
    "nl": "1011 AB Amsterdam|2000 Antwerpen",
}
GOODS: Final[dict[str, str]] = {
    "de": "Beratung vor Ort|Kopierpapier A4|Wartung Server|Schrauben M6|Kaffeebohnen|Lizenz Jahresabo|"
    "Transport|Montage",
    "en": "Consulting|Copy paper A4|Server maintenance|Screws M6|Coffee beans|Annual licence|Freight|"
    "Assembly",
    "fr": "Conseil|Papier A4|Maintenance serveur|Vis M6|Café en grains|Licence annuelle|Transport|Montage",
    "it": "Consulenza|Carta A4|Manutenzione|Viti M6|Caffè|Licenza annuale",
    "es": "Consultoría|Papel A4|Mantenimiento|Tornillos M6|Café|Licencia anual",
    "nl": "Advies|Papier A4|Onderhoud|Schroeven M6|Koffiebonen|Jaarlicentie",
}
PROSE: Final[dict[str, str]] = {
    "de": "Bei Fragen wenden Sie sich bitte an unseren Kundenservice.|Dieses Dokument wurde maschinell "
    "erstellt und ist ohne Unterschrift gültig.|Bitte prüfen Sie die Angaben und melden Sie "
    "Unstimmigkeiten innerhalb von vier Wochen.|Es gelten unsere Allgemeinen Geschäftsbedingungen.|"
    "Mit freundlichen Grüßen|Sitz der Gesellschaft, Amtsgericht, Geschäftsführung|Seite 1 von 1",
    "en": "If you have any questions please contact customer services.|This document was produced "
    "electronically and bears no signature.|Please check the details and tell us about errors within "
    "four weeks.|Our general terms and conditions apply.|Kind regards|Registered office, company "
    "number, directors|Page 1 of 1",
    "fr": "Pour toute question, contactez notre service clientèle.|Document établi par ordinateur, sans "
    "signature.|Merci de vérifier ces informations et de signaler toute erreur.|Nos conditions "
    "générales s'appliquent.|Veuillez agréer nos salutations distinguées|Siège social, capital, RCS|"
    "Page 1/1",
    "it": "Per informazioni contattate il servizio clienti.|Documento emesso elettronicamente.|Si "
    "applicano le condizioni generali.|Distinti saluti|Pagina 1 di 1",
    "es": "Para cualquier consulta contacte con atención al cliente.|Documento emitido electrónicamente.|"
    "Se aplican las condiciones generales.|Atentamente|Página 1 de 1",
    "nl": "Voor vragen kunt u contact opnemen met de klantenservice.|Dit document is elektronisch "
    "opgesteld.|Onze algemene voorwaarden zijn van toepassing.|Met vriendelijke groet|Pagina 1 van 1",
}
TOWNS: Final = "Hamburg|Köln|Zürich|Wien|London|Paris|Lyon|Milano|Madrid|Amsterdam"
