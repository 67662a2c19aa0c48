"""Invented names of firms, brokers, securities and places for generated documents."""

from typing import Final

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
TOWNS: Final = "Hamburg|Köln|Zürich|Wien|London|Paris|Lyon|Milano|Madrid|Amsterdam"
