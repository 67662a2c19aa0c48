"""The document kind `contract-note`: a purchase or sale of securities by a broker for a client.

It declares fields, labels, titles and relations and contains no logic.
"""

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Annotated, Final, Literal

from postroom.documents.kinds import field_spec
from postroom.documents.kinds.document_kind import (
    AccountingControls,
    DocumentKind,
    ProductRelation,
    SettlementRelation,
)

_BUY: Final = (
    "Wertpapierkauf, Ihr Kauf, Kauf, ETF-Kauf, Kaufabrechnung, Kaufauftrag?, gekauft, gezeichnet, "
    "Zeichnung, Zeichnungen, Käufe, Emission?, Ausgabe?, Ausgabe Investmentfonds, "
    "Investmentkauf, Zukauf, Nachkauf, Fondskauf, Aktienkauf, Aufbau?, Sparplanausführung, Zugang?, "
    "Einkauf, Zeichnungsorder, Sparplan*?, Ansparplan*?, Wiederanlage?, savings plan?, investment plan?, "
    "reinvestment?, plan d'épargne?, investissement programmé?, piano di accumulo?, piano d'accumulo?, "
    "plan de inversión?, køb, købt, kjøp, köp, "
    "we have bought, bought, you bought, buy, purchase, purchased, you have purchased, subscription, buy "
    "to open, "
    "achat, achat comptant, acheté, souscription, acquisto, acquistato, sottoscrizione, compra, comprado, "
    "suscripción, aankoop, gekocht, "
    "koop, kupno, nabycie, aliş, zu Ihren Lasten?, zu Lasten?, Belastung?, total debit?, débit?, "
    "belastet?, zulasten?"
)
_SELL: Final = (
    "Wertpapierverkauf, Ihr Verkauf, Verkauf, ETF-Verkauf, Verkaufsabrechnung, Verkaufsauftrag?, verkauft, "
    "Rücknahme, Rücknahmen, Verkäufe, Rücknahme Investmentfonds, Rückgabe, "
    "Gesamtverkauf, Teilverkauf, Fondsverkauf, Aktienverkauf, Entnahmeplan?, Barabfindung?, "
    "Rückzahlung?, repayment?, remboursement?, salg, solgt, sälj, "
    "Abgang?, Tilgung?, Einlösung?, we have sold, sold, you sold, sell, sale, redemption, you have sold, "
    "sell to close, vente, vente comptant, "
    "vendu, rachat, vendita, venduto, rimborso, venta, vendido, reembolso, reembolso en efectivo, verkoop, "
    "verkocht, venda, sprzedaż, zbycie, satiş, försäljning, zu Ihren Gunsten?, zu Gunsten?, Gutschrift?, "
    "total credit?, crédit?, gutgeschrieben?, zugunsten?"
)


@dataclass(frozen=True, slots=True)
class ContractNote:
    broker: Annotated[str | None, field_spec.party(de="Bank?", en="Broker", fr="Intermédiaire")] = None
    number: Annotated[
        str | None,
        field_spec.code(  # of the note, not of the order: one order may be executed in parts
            de="Abrechnungsnummer, Abrechnungs-Nr, Abrechnung Nr, Wertpapierabrechnung Nr, Belegnummer, "
            "Beleg-Nr, Geschäftsnummer, Geschäfts-Nr, Handelsreferenz, Transaktionsnummer, Transaktions-Nr, "
            "Abwicklungs-Nr, Vorgangsnummer?, Rechnungsnummer?, Referenznummer?, Referenz-Nr?, Referenz?",
            en="Contract note number, Contract note no, Contract number, Contract no, Contract reference, "
            "Contract ref, Confirmation number, Confirmation no, Bargain number, Bargain reference, Deal "
            "number, Deal reference, Trade number, Trade reference, Trade ID, Transaction number, "
            "Transaction reference, Transaction ID, Note number, Our reference?, Reference?",
            fr="Numéro d'avis, N° d'avis, Référence de l'avis, Réf. de l'avis, Numéro d'opération, N° "
            "d'opération, Numéro de l'opération, Référence de l'opération, Référence?",
            it="Numero nota, Nota n, Numero operazione, Riferimento?",
            es="Número de operación, Nº operación, Referencia?",
            nl="Notanummer, Nota nr, Transactienummer, Referentie?",
        ),
    ] = None
    account: Annotated[
        str | None,
        field_spec.code(
            de="Depotnummer, Depot-Nr, Depot Nr, Depot, Depotkonto, Portfolio-Nr, Portfolionummer, "
            "Portfolio?, Kundennummer?, Kunde?",
            en="Account number, Account No, Account, Client number?, Customer number?",
            fr="Compte titres, Numéro de compte, N° de compte, Compte?",
            it="Conto, Deposito titoli",
            es="Nº cuenta de valores, cuenta de valores",
            nl="Effectenrekening, rekening",
        ),
    ] = None
    trade_date: Annotated[
        date | None,
        field_spec.day(
            de="Schlusstag, Schlußtag, Schlusstag/-Zeit, Schlusstag/-zeit MEZ, Schlusstag Uhrzeit, "
            "Handelstag, Handelsdatum, Handelszeit, Handelstag/-zeit, "
            "Ausführungstag, Ausführungstag / -zeit, Ausführungszeit, Geschäftsabschluss, Abschlusstag, "
            "Kurstag?, Ausführungsdatum, Ausführung, Ausgeführt am, Ausführungsdatum/-zeit, Abschluss per, "
            "Abschlussdatum, Abschlusstag, Abschluss?, "
            "Geschäftstag, Geschäftsdatum?, Trade-Datum, Transaktionsdatum, Datum der Transaktion, "
            "Ausführungszeitpunkt, Handelszeitpunkt, Handelsdatum/-zeit, Handelsdatum/-uhrzeit, "
            "Abschlusszeitpunkt, Abschluss am, Orderausführung, Zeichnungstag, Rücknahmetag, Börsentag, "
            "Transaktionstag, Kauf vom, Verkauf vom, Datum der Abrechnung?, Buchungstag?, "
            "Preisdatum?, Kaufauftrag vom?, Verkaufsauftrag vom?, Buchungsdatum?, wie folgt am, "
            "Kursdatum?, Abrechnungstag?, Abrechnungsdatum?, NAV-Datum?, "
            "Wir haben für Sie am?, Wir haben am, haben wir am, haben wir für Sie am?, haben am?, Kauf am, "
            "Verkauf am, Order Kauf am, Order Verkauf am, Kaufdatum, Verkaufsdatum, Datum der Ausführung, "
            "Tag der Ausführung",
            en="Date of dealing, Trade date, Trade time, Deal date, Dealing date, Transaction date, "
            "Execution date, Execution date/time, Execution time, Date of execution, Trade date and time, "
            "buy order of?, sell order of?, Executed on, Date of trade, Contract date, Traded on, Bargain "
            "date, Order executed, Date and time of execution, Date of transaction, Trade date/time, "
            "Trade date & time, Date/time of trade, Deal date/time, Trade executed, Execution date and time",
            fr="Date d'exécution, Date Quantité, Date et heure d'exécution, locale d'exécution, exécuté le, "
            "Date de négociation, Date de transaction, Date de l'opération, Date opération, "
            "Date d'éxécution, Date transaction, Séance du, Jour de bourse, "
            "Date de bourse, OPERATION DE BOURSE le?, Date du versement?, Date d'opération, négocié le",
            it="Data esecuzione, Data di esecuzione, Data negoziazione, Eseguito il, Data operazione, Data "
            "di negoziazione, ordine sopra riportato del?, Data contabile?",
            es="Fecha ejecución, Fecha de ejecución, Fecha operación, Fecha contratación, Fecha de "
            "operación, Fecha de contratación",
            da="Handelsdag, Handelsdato, Handelstidspunkt, Affärsdag, Avslutsdag",
            nl="Datum en tijdstip van uitvoering, Handelsdatum, Datum transactie, Uitvoeringstijd, "
            "Uitvoering op, Uitvoeringsdatum, Datum uitvoering, Transactiedatum, uitgevoerd op",
            pt="Data da operação, Data de execução, Data de negociação, Data da transação",
            pl="Data transakcji, Data zawarcia transakcji, Data realizacji",
            sv="Handelsdatum, Affärsdatum, Kauppapäivä",
            tr="Işlem tarihi",
            units="ausgeführt, gekauft, verkauft, gezeichnet, abgerechnet, executed, exécuté, eseguito, "
            "unten angeführtes Geschäft, haben wir, we have, nous avons, abbiamo, hemos",
            has_time=True,
            fallback_dates="issued_on, settlement_date",
        ),
    ] = None
    settlement_date: Annotated[
        date | None,
        field_spec.day(
            de="Valuta, Valutadatum, Valutatag, Valuta-Datum, Wertstellung, mit Wertstellung, mit Valuta, "
            "per Valuta, Kassatag, Fällig am, Wert, Erfüllungstag, Buchungsvaluta, Zahltag?, "
            "Erfüllungsdatum",
            en="Settlement date, Value date, Settles on, Settlement, Contractual settlement date, due date?",
            fr="Date de règlement, Date de valeur, Date valeur, Valeur?, Date de livraison",
            it="Valuta, Data valuta, Data regolamento",
            es="Fecha valor, Fecha valor liquidación, Fecha liquidación, Fecha de liquidación",
            nl="Valutadatum, Afrekendatum, Valuta",
            da="Valør?, Valørdag, Afviklingsdato, Afviklingsdag, Likviddag",
            pt="Data de liquidação, Data valor, Data-valor",
            pl="Data rozliczenia, Data rozrachunku",
            sv="Likviddatum, Oppgjørsdato, Oppgjørsdag",
            tr="Takas tarihi, Valör tarihi",
        ),
    ] = None
    issued_on: Annotated[
        date | None,
        field_spec.day(
            in_letterhead=True,
            de="Datum, Belegdatum, Erstellt am?, Abrechnung vom, GESCHÄFTSABRECHNUNG VOM, vom?, den?",
            en="Date, Confirmation date, Statement date, Date of issue",
            fr="Date, Paris le?, le?, Au?",
            it="Data, Torino?",
            es="Fecha",
            nl="Datum",
        ),
    ] = None
    isin: Annotated[
        str | None,
        field_spec.isin(
            de="ISIN, ISIN (WKN), WKN/ISIN, Wertpapierkennnummer, Kennnummer, WP-Kenn-Nr, Titel, "
            "Wertpapier, Valor?",
            en="ISIN, ISIN code, Security, Security ID",
            fr="Code ISIN, ISIN, Code valeur",
        ),
    ] = None
    ticker: Annotated[
        str | None,
        field_spec.symbol(
            de="Symbol, Ticker, Kürzel",
            en="Symbol, Ticker, Ticker symbol, Citicode",
            fr="Mnémonique, Mnémo, Symbole, Ticker",
        ),
    ] = None
    name: Annotated[
        str | None,
        field_spec.name(
            de="Wertpapierbezeichnung, Wertpapier-Bezeichnung, Gattungsbezeichnung, Wertpapiername, "
            "Fondsname, ETF-Name, Titel, Wertpapier, Bezeichnung, Instrument, Fonds?, Name des "
            "Wertpapiers, Gattung",
            en="Security name, Security description, Investment name, Security, Instrument, Stock, "
            "Description, Fund name, Company",
            fr="Informations sur la valeur, Désignation, Libellé, Valeur, Titre, Nom de la valeur, Support",
            it="Titolo, Descrizione, Strumento",
            es="Valor, Nombre del valor",
            nl="Je aankoop van, Je verkoop van, Effect, Naam",
        ),
    ] = None
    direction: Annotated[
        Literal["buy", "sell"] | None,
        field_spec.choice(
            {"buy": _BUY, "sell": _SELL},
            de="Geschäftsart, Auftragsart, Transaktionsart, Transaktion, Order, K/V, Abrechnung, "
            "Wertpapier Abrechnung, Wertpapierabrechnung, Geschäft, Börsenabrechnung, Art, Börse, Typ, "
            "Handelsrichtung",
            en="Bought or Sold, Type, Side, Direction, Transaction type, Transaction, Buy/Sell, B/S, Order "
            "type?",
            fr="Sens, Type d'opération, Nature de l'opération, Opération, Sens de l'opération",
            it="Tipo di Operazione, Operazione",
            es="Operación, Tipo de operación, detalle de la operación",
            nl="Type order, Transactie, Verrichting",
        ),
    ] = None
    quantity: Annotated[
        Decimal | None,
        field_spec.quantity(
            de="Stück, Stücke, Umsatz, Einheit Umsatz, Ausgeführt, davon ausgef, Stücke/Nominal, "
            "Anzahl/Stück, Ausgeführte Anzahl, Anteile/Stück, Anteilumsatz, Stk, St, Nominal, Nominale, "
            "Nominal/Stück, Stück/Nominale, Stück/Nominal, Nennwert, Menge, Menge/Nominal, Anzahl, "
            "Anzahl/Nominal, Anzahl Anteile, Anteile, Fondsanteile, Zugang, Abgang, Nom, "
            "Gekaufte Anteile, Verkaufte Anteile, Ausgeführte Stück, Ausgeführte Menge, Umsatz in "
            "Anteilen, Bestellmenge?, Stückzahl, Gehandelte Anzahl, Nominalwert, Ant, Nominalbetrag, Anz, "
            "Stück/Nennwert, Volumen?",
            en="Quantity, Number of units, Units, Shares, Number of shares, Qty, Nominal, Amount of "
            "shares, Executed quantity, No. of shares, Nominal amount, Number of securities, Share "
            "quantity, No. of units, Filled quantity, Executed qty, Shares purchased, Shares sold, Units "
            "purchased, Units sold, Volume?",
            fr="Quantité, souscription de, achat de, vente de, Nombre de titres, Nombre de parts, Nombre "
            "d'unités de compte, Nombre d'unités, Nombre d'actions, Qté, Nombre, Parts",
            it="Quantità, Quantita', Quantita, Q.tà, Numero quote, Quote, Numero titoli, acquisto di, "
            "vendita di, eseguito per",
            es="Nº de valores, Número participaciones, Participaciones, Número de títulos, Títulos, "
            "Cantidad, S/títulos, Núm. títulos, Nº títulos",
            da="Antal, Nominelt, Antal stk",
            nl="Nominaal bedrag, Nominale waarde, Aantal aandelen, Aantal effecten, Aantal, Aantal delen, "
            "Aantal stuks, Hoeveelheid",
            pt="Quantidade, Número de títulos, Nº de títulos",
            pl="Ilość, Liczba, Liczba jednostek, Liczba akcji",
            sv="Antal aktier, Antall, Antal andelar",
            tr="Adet, Miktar",
            units="Stück, Stk, St, Ant, Anteile, Anteil, Aktien, Namen-Aktie*, Inhaber-Aktie*, "
            "Namenaktie*, Inhaberaktie*, Namenakt*, Registered Sh*, Akt, shares, units, parts, "
            "titres, titre, actions, Anrechte, ETF, Fondsanteile, azioni, acciones, títulos, "
            "aandelen, stuks, zu, Reg, Ant., pcs, pieces, tít, quote, andele, Bezugsrechte, participaciones",
        ),
    ] = None
    price: Annotated[
        Decimal | None,
        field_spec.price(
            de="Kurs, Kurs/Preis, NAV?, Kurs P.ST, Preis je Einheit, Kurs in EUR, Abrechnungskurs in, "
            "Ausführungskurs, Preis, Abrechnungskurs, Handelskurs, zum Kurs, zum Kurs von, zum Kurse "
            "von, Preis pro Anteil, Preis je Anteil, Preis/Anteil, Anteilspreis, Anteilwert, "
            "Rücknahmepreis, Ausgabepreis, Kurs pro Stück, "
            "Abrechnungspreis, Durchschnittskurs, Ø-Kurs, Stückpreis, Einzelkurs, Ausgeführter Kurs, "
            "Fondspreis, Kurs in, Ausführungspreis, Preis pro Stück, Kurs je Stück, Kaufkurs, "
            "Verkaufskurs, Mischkurs, Kassakurs, zu?, Durchschnittspreis, Anteilpreis, Stückkurs, "
            "Verrechnungspreis, Emissionspreis, Zeichnungspreis, zum Preis von, Preis von",
            en="Price, Unit price, Share price, Execution price, Price per share, Price per unit, Average "
            "price, Dealing price, Trade price, Executed price, Deal price, Average rate, Fill price, NAV "
            "per unit, Unit cost, Rate?",
            fr="Cours, Cours exécuté, Cours d'exécution, Prix, Prix unitaire, Valeur liquidative, Valeurs "
            "liquidatives, Cours moyen, Prix d'exécution, Cours unitaire",
            it="Prezzo, Prezzo medio, Prezzo unitario, Prezzo di esecuzione",
            es="Precio, Precio unitario, Cambio, Precio medio, Cotización, Cotización media",
            da="Kurs, Afregningskurs, Handelskurs",
            nl="Gemiddelde koers, Koers, Prijs, Uitvoeringskoers, Prijs per stuk",
            pt="Preço, Cotação, Preço unitário",
            pl="Cena, Kurs wykonania, Cena jednostkowa",
            sv="Pris, Snittkurs, Handelskurs",
            tr="Fiyat, Birim fiyat",
        ),
    ] = None
    currency: Annotated[str | None, field_spec.currency(of="net")] = None
    gross: Annotated[
        Decimal | None,
        field_spec.amount(
            de="Kurswert, Total Kurswert, Bruttobetrag, Brutto, Kurswert in EUR, Kurswert in "
            "Handelswährung, Marktwert, Betrag?, Kaufpreis, Verkaufspreis, Gehandelter Wert, "
            "Aktienbetrag, Ausmachender Betrag?, Gegenwert?, Total?, Anlagebetrag?, Abrechnungsbetrag?, "
            "Kurswert EUR, Umsatz?, Transaktionswert, Handelswert, Geschäftswert, Bruttowert, Ordervolumen, "
            "Zwischensumme?",
            en="Consideration, Gross money, Traded value, Share amount, Amount?, Gross amount, Principal, "
            "Principal amount, Gross consideration, Gross, Total amount?, Market value, Trade value, "
            "Gross value, Value?, Deal value, Transaction value, Order value, Trade amount, Gross "
            "proceeds, Subtotal?",
            fr="Montant brut, Montant transaction brut, Montant brut de la transaction, Brut, Montant de "
            "l'opération, Montant?, Montant transaction, Capital",
            it="Controvalore, Controvalore lordo, Importo lordo, Euro?",
            es="Importe efectivo, Efectivo, Importe bruto, Subtotal en origen?, Importe?",
            da="Kursværdi, Handelsværdi, Beløb?, Belopp?",
            nl="Totaal bedrag, Brutobedrag, Bruto bedrag, Effectief bedrag",
            pt="Valor bruto, Montante bruto, Valor da operação",
            pl="Wartość, Wartość transakcji, Wartość brutto",
            sv="Affärsbelopp, Bruttobelopp, Bruttobeløp, Bruttobeløb",
            tr="Tutar?, Işlem tutari, Brüt tutar",
        ),
    ] = None
    fees: Annotated[
        Decimal | None,
        field_spec.amount(
            de="Provision, Orderprovision, Grundgebühr, Orderentgelt, Orderentgelte, Courtage, "
            "Maklercourtage, Maklergebühr, Börsengebühr, Börsengebühren, Börsenplatzgebühr, "
            "Handelsplatzgebühr, Handelsplatzentgelt, Handelsentgelt, Transaktionsentgelt, "
            "Transaktionsentgelt Börse, Transaktionsgebühr, Kommission, "
            "Eigene Kommission, Fremde Kommission, Kommission Schweiz/Ausland, Eigene Courtage, Eigene "
            "Spesen, Fremde Spesen, Fremde Börsengebühr, Spesen, Gebühren, Gebühr, Entgelt, Entgelte, "
            "Eigene Gebühren, Clearinggebühr, Clearstream*, XETRA-Kosten, Weitere Provision*, "
            "Liefergebühr, Übertragungs-/Liefergebühr, Abwicklungsgebühr*, Fremdspesen, Flat "
            "Fee/Provision, Flat Fee, Börsenspesen, Handelsplatzspesen, "
            "Serviceentgelt, Abwicklungsentgelt, Fremdentgelt, Fremdkosten, Ausgabeaufschlag, "
            "Abwicklungskosten, Auslandsspesen, Devisenprovision, Grundpreis, Bearbeitungsgebühr, "
            "Ordergebühr, Ordergebühren, Börsenabgaben, Variable Börsenspesen, Fixspesen*, "
            "Vermittlungsprovision, Fremdkostenzuschlag, Wechselkursaufschlag, Summe Entgelte?, "
            "*gebühr, *gebühren, *entgelt, *entgelte, *provision, *spesen, *courtage, *kommission, "
            "Transaktionskosten, Fremdkostenpauschale, *kostenpauschale, Mindermengenzuschlag, "
            "Fremde Auslagen, Eigene Auslagen, Auslagen, "
            "Umschreibeentgelt, Handelsspesen, Sockelbetrag, Umrechnungskosten?, Gesamte Trading-Kosten?",
            en="Third-party charges, Third party fees, Venue fee, Commission, Dealing charge, Dealing fee, "
            "Broker fee, Brokerage, Charges, Fees, Exchange fee, Clearing fee, PTM levy, Transaction "
            "fee, Handling fee, Fx charge, Settlement fee, Compliance charge, Brokerage fee, Dealing "
            "costs, Trading fee, Processing fee, FX fee, Currency conversion fee, Platform fee",
            fr="Frais de tiers, Frais de place, Courtage et Commission, Courtage, Courtages, Commission, "
            "Frais, Frais de courtage, Frais divers, Droits de garde, Frais de transaction, Montant "
            "total des frais, Frais de versement",
            it="Commissioni, Spese, Commissione",
            es="Comisión, Corretaje, Gastos, Cánones, comisión fija, Tarifa",
            da="Kurtage, Handelsomkostninger, Courtage, Gebyr",
            nl="Makelaarsloon, Kosten, Vaste kosten, Provisie, Transactiekosten",
            pt="Comissão, Comissões, Corretagem, Encargos",
            pl="Prowizja, Opłata, Opłaty, Prowizja maklerska",
            sv="Kurtasje, Omkostninger, Avgift, Avgifter, Valutaväxlingsavgift",
            tr="Komisyon, Komisyon tutari",
            is_summed=True,
        ),
    ] = None
    accrued_interest: Annotated[
        Decimal | None,
        field_spec.amount(
            de="Stückzinsen, aufgelaufene Zinsen, Zinsen für, Marchzinsen",
            en="Accrued interest, Bond accrued interest",
            fr="Intérêts courus, Intérêts",
            it="Rateo, Interessi",
            es="Cupón corrido",
            nl="Opgelopen rente, Verlopen interest",
            is_summed=True,
        ),
    ] = None
    taxes: Annotated[
        Decimal | None,
        field_spec.amount(
            de="Kapitalertragsteuer, Kapitalertragssteuer, Kapitalertragst, Solidaritätszuschlag, "
            "Kirchensteuer, KESt, Stempelabgabe, Stempelabgaben, Stempelsteuer, Eidg. Umsatzabgabe, "
            "Eidgenössische Umsatzabgabe, Eidg. Stempelabgabe, Eidg. Abgaben, Eidg. Umsatz Stempel, "
            "Umsatzabgabe, Abgabe (Eidg. Stempelsteuer), Finanztransaktionssteuer, "
            "Finanztransaktionsteuer, Quellensteuer, "
            "Schweizerische Stempelgebühr, Stempelgebühr, Stempelgebühr Ausland, Ausländische "
            "Quellensteuer, Stamp Duty, Abgeltungsteuer, Abgeltungssteuer, Einbehaltene Steuer, Steuern?, "
            "Stamptax, *steuer",
            en="Capital gains tax, Capital gains tax withheld, Solidarity surcharge, Church tax, Tax "
            "withheld, Stamp duty, SDRT, Stamp duty reserve tax, Transaction tax, Financial transaction "
            "tax, Withholding tax, Transaction levy, SEC fee",
            fr="Impôt sur les plus-values, Supplément de solidarité, Impôt, TTF, Taxe sur les transactions "
            "financières, Taxe, Impôt de bourse, Prélèvements sociaux, TVA",
            it="Ritenuta, Imposta, Tobin tax, Bollo",
            es="Impuesto, Retención, ITF, IVA",
            da="Skat, Udbytteskat",
            nl="Beurstaks, Taks, Belasting, Roerende voorheffing",
            pt="Imposto, Imposto de selo, Imposto do selo",
            pl="Podatek",
            sv="Preliminärskatt, Källskatt",
            tr="Vergi, BSMV",
            is_summed=True,
        ),
    ] = None
    net: Annotated[
        Decimal | None,
        field_spec.amount(
            de="Ausmachender Betrag, Gesamt, Endbetrag zu Ihren Lasten, Endbetrag zu Ihren Gunsten, "
            "Lastschrift, Nettobetrag zulasten, Nettobetrag zugunsten, Zahlungsbetrag in EUR, Belastung "
            "Ihres Kontos, Betrag in Kontowährung, Abrechnungsbetrag in EUR, Zahlbetrag, Wert?, "
            "Buchungsbetrag EUR, Betrag Belastung, Betrag Gutschrift, Endbetrag, Betrag zu Ihren "
            "Lasten, Betrag zu Ihren Gunsten, zu Ihren Lasten, zu Ihren Gunsten, Zu Ihren Lasten vor "
            "Steuern, Zu Ihren Gunsten vor Steuern?, Zu Ihren Gunsten nach Steuern, Zu Ihren Lasten nach "
            "Steuern, zu Lasten, zu Gunsten, zulasten, zugunsten, Belastung, Gutschrift, Belastung EUR, "
            "Gutschrift EUR, Netto, Nettobetrag, "
            "Total belastet, Total gutgeschrieben, Total, Total zu Ihren Lasten, Total zu Ihren Gunsten, "
            "Verrechneter Betrag, Gutgeschriebener Betrag, Belasteter Betrag, Abrechnungsbetrag, "
            "Gesamtbetrag, Endsumme, Zahlungsbetrag, Kaufbetrag, Auszahlungsbetrag, Gebuchter Betrag, "
            "Buchungsbetrag, Betrag in EUR?, Nettowert, Totalbetrag, Gesamtsumme, Auszahlung, Der "
            "Totalbetrag von, Buchung auf*, Belastungsbetrag, Gutschriftsbetrag, zu belasten, Betrag?, "
            "Rechnungsbetrag, Gesamtkosten?, Sollbuchung, Habenbuchung, Abrechnungsbetrag EUR, "
            "Nettoabrechnungsbetrag, Gesamtbelastung, Gesamtgutschrift, Abrechnungssumme, "
            "Überweisungsbetrag, Auszahlbetrag, Nettoerlös, Verkaufserlös?, Kontobelastung, Kontogutschrift",
            en="Total debit, Total receivable, Net amount due to you, Net amount due from you, Net money, "
            "Amount to pay, Amount receivable, Net cash amount, Total charged, Total received, To your "
            "debit, To your credit, Charged amount, Credited amount, Total credit, Net amount, Total "
            "consideration, Total amount, Net consideration, Amount due, Amount payable, Settlement "
            "amount, Net settlement amount, Total, Total cost, Total proceeds, Net proceeds, Amount due "
            "to you, Amount due from you, Net total, Total due, Amount debited, Amount credited, Net amount "
            "payable, Total payable, Net payable, Settlement value, Total settlement, Net cash, Total "
            "value?, Proceeds before tax?, Amount before tax?, Amount after tax",
            fr="Net au crédit, Net au débit, Montant net, Montant comptabilisé, Montant net au débit de "
            "votre compte, Montant net au crédit de votre compte, Net à débiter, Net à créditer, "
            "Montant total, Montant à débiter, Montant transaction net, Net client, Montant net débité, "
            "Montant net crédité, Montant avant impôt?, Montant débité, Montant crédité, Total net, "
            "Solde?, Net",
            it="Totale a Vs. Debito, Totale a Vs. Credito, Totale, Importo netto, Netto, Controvalore "
            "netto, Totale addebito, Totale accredito, Importo addebitato, Importo accreditato",
            es="Importe total, Importe líquido, Líquido, Importe neto, Total, Neto",
            nl="Netto bedrag, Netto afrekening, Nettobedrag, Totaal te betalen, Te betalen, Netto "
            "afrekening op, Te ontvangen, Totaalbedrag, Eindbedrag, Credit?, Debet?",
            da="Afregningsbeløb, Til afregning, I alt, Likvidbelopp, Att betala, Att erhålla",
            pt="Valor líquido, Montante líquido, Valor total, Total líquido",
            pl="Kwota rozliczenia, Wartość netto, Do zapłaty, Kwota do zapłaty, Razem",
            sv="Nettobelopp, Nettobeløp, Nettobeløb, Belopp att betala, Summa, Afregnet beløb, Totalbeløb",
            tr="Net tutar, Toplam tutar, Net işlem tutari",
        ),
    ] = None


CONTRACT_NOTE: Final = DocumentKind(
    name="contract-note",
    model=ContractNote,
    titles="Wertpapierabrechnung, Wertpapier Abrechnung, Kaufabrechnung, Verkaufsabrechnung, "
    "Effektenabrechnung, Börsenabrechnung, Wertschriftenabrechnung, contract note, trade "
    "confirmation, avis d'opéré, avis d'opération*, opération de bourse, Fondsabrechnung, "
    "Transaktionsabrechnung, Wertpapierbestätigung, Abrechnung Handel, nota informativa, nota "
    "contabile, compra de valores, venta de valores, overzicht transactie, Abrechnung Kauf, Abrechnung "
    "Verkauf, Kauf Abrechnung, Verkauf Abrechnung, Abrechnung über den Kauf*, Abrechnung über den Verkauf*, "
    "Ausführungsanzeige, Wertpapierkauf, Wertpapierverkauf, Transaction confirmation, Confirmation of trade, "
    "Securities settlement, avis d'exécution, bordereau, borderel, effectennota, liquidación de valores, "
    "regolamento titoli, nota di eseguito, fondsnota, handelsnota, avräkningsnota, "
    "nota de corretagem, potwierdzenie transakcji, sluttseddel, fondsafregning, handelsafregning",
    required=("trade_date", "isin", "direction", "quantity", "net"),
    identity=("isin", "trade_date", "direction", "quantity", "net"),
    distinguishing_fields=("account", "number"),
    document_identity=("number", "isin", "trade_date", "direction"),
    compared_fields=("price",),
    key=("username", "trade_date", "ticker", "direction", "quantity"),
    relations=(
        ProductRelation("quantity", "price", "gross"),
        SettlementRelation("gross", "net", ("fees", "taxes", "accrued_interest"), "direction"),
    ),
    ignored_labels="Umrechnungskurs, Devisenkurs, Wechselkurs, Wisselkoers*, zum Kurs von CHF, Change, "
    "exchange rate, Conversion rate, Taux de conversion, Devisenkurs EUR*, taux de change, Cambio divisa, "
    "Umrechnungsbasis, Limit, Limitkurs, Preislimit, Cours demandé, cours limite, Kurslimit, "
    "Bestand, Bestand neu, Bestand nach Buchung, Bestand alt, neuer Bestand, Depotbestand, Saldo, "
    "Veräußerungsgewinn, Veräußerungsverlust, Anschaffungswert, steuerlicher Anschaffungswert, "
    "Anschaffungskosten, Einstandswert, Berechnungsgrundlage*, Bemessungsgrundlage*, Freistellungsauftrag, "
    "Sparerpauschbetrag, Verlusttopf*, Verlustverrechnung*, Zwischengewinn*, Gewinn, Verlust, "
    "Auftragsdatum, Auftrag vom, Orderdatum, Auftragseingang, Auftragserteilung, Datum order, Order date, "
    "Date of order, Druckdatum, Gültig bis, gültig bis, Generated at, Generated on, Generiert um, "
    "Generiert am, Printed on, Gedruckt am, Erstellt um, Reporting period, Berichtszeitraum, Transmission, "
    "Ordereingang, Eingang, Erteilt am, Fälligkeit, "
    "Auftragszeit, Zahlbarkeitstag, Laufzeit, Scadenza, Kup, Zinstermin, Rücknahmeabschlag, "
    "Auftragsnummer, Auftrags-Nr, Order-ID, Telefon, Tel, Fax, BLZ, Kontraktgrösse, Multiplikator, "
    "Ausübungspreis, aktueller Zinssatz, Zinssatz, Seite, page, Steuerliche*, Kundenberater, "
    "Rechnungsnummer, Belegnummer, Referenz*, Valor, Valorennummer, WKN, Sedol, Geburtsdatum, Anlage, "
    "Nennwert pro*",
    excluded_titles="Storno*, Stornierung, Annulation, Annullierung, Cancellation, Cancelled, Dividende*, "
    "Dividend, Ausschüttung*, Ertragsgutschrift, Ertrag, Zinsgutschrift, Coupon, Kapitalrückzahlung, "
    "Distribution, Capital repayment, Depotauszug, Kontoauszug, Vermögensübersicht, Portfolio statement, "
    "Relevé de compte, Corporate action",
    controls=AccountingControls(dates=("trade_date", "settlement_date", "issued_on")),
    revision_words="Storno*, Stornierung, Storniert*, Annulation, Annullierung, Annulliert*, Cancellation, "
    "Cancelled, Canceled, Cancelling, Reversal, Reversed, Replaces, Replacement, Supersedes, Amended, "
    "Amendment, Corrected, Correction, Revised, Rebooking, Korrektur*, Korrigiert*, Berichtigung, "
    "Berichtigt*, Ersetzt, Rectification, Rectificatif, Rectificative, Rectifié*, Annule, Annulé*, Remplace, "
    "Correctif, Rectifica*, Anula, Anulación, Anulad*, Sustituye, Corregid*, Corrección, "
    "Rettifica*, Annulla*, Stornat*, Sostituisce, Corretta, Correzione, "
    "Annulering, Geannuleerd*, Correctie, Gecorrigeerd*, Vervangt, "
    "Retificação, Anulação, Cancelamento, Substitui, Corrigid*, "
    "Korekta, Anulowan*, Anulowanie, Rettelse, Annulleret, Korrigeret, Erstatter, Makulerad, Rättelse",
)
