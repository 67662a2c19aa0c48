"""Fictitious firms on documents (suppliers, buyers, brokers), and the securities they trade.

Firms and people in message texts are in `phrases`.
"""

import functools
from dataclasses import dataclass

from mailsim.samples.check_digits import draw_iban, draw_vat_id, make_isin
from mailsim.samples.seeded_random import SeededRandom, hash_text


@dataclass(frozen=True, slots=True)
class Firm:
    name: str
    street: str
    postcode: str
    city: str
    country: str
    domain: str
    vat_id: str
    iban: str
    bic: str
    phone: str

    @property
    def country_name(self) -> str:
        """The country's name in its own language."""
        return _COUNTRY_NAMES[self.country]

    @property
    def city_line(self) -> str:
        return (
            f"{self.city} {self.postcode}" if self.country in {"GB", "IE"} else f"{self.postcode} {self.city}"
        )

    def email(self, local: str) -> str:
        return f"{local}@{self.domain}"


@dataclass(frozen=True, slots=True)
class Security:
    name: str
    ticker: str
    isin: str
    currency: str
    low: int
    high: int


_HEAD_OFFICE = 3 * "X"  # the branch code of a BIC that names no branch
_COUNTRY_NAMES = {
    "DE": "Deutschland",
    "CH": "Schweiz",
    "GB": "United Kingdom",
    "IE": "Ireland",
    "FR": "France",
}
# name, street, postcode, city, country, domain
_SUPPLIERS = {
    "de": (
        ("Kieselstein Bürobedarf GmbH", "Ahornweg 12", "20095", "Hamburg", "DE", "kieselstein.example"),
        ("Elektro Fröhlich e.K.", "Mühlenstraße 7", "04109", "Leipzig", "DE", "elektro-froehlich.example"),
        ("Druckerei Sonnenblick", "Am Anger 3", "99084", "Erfurt", "DE", "sonnenblick-druck.example"),
        ("Brezel & Korn Feinkost GmbH", "Marktplatz 21", "86150", "Augsburg", "DE", "brezelkorn.example"),
        (
            "Wolkenwerk Hosting UG (haftungsbeschränkt)",
            "Deichgasse 88",
            "28195",
            "Bremen",
            "DE",
            "wolkenwerk.example",
        ),
        (
            "Zahnrad Müller Maschinenbau AG",
            "Industriering 140",
            "70565",
            "Stuttgart",
            "DE",
            "zahnrad-mueller.example",
        ),
        ("Alpenglück Logistik AG", "Seestrasse 45", "8002", "Zürich", "CH", "alpenglueck.example"),
    ),
    "en": (
        ("Thistledown Stationery Ltd", "14 Marsh Lane", "LS1 4AB", "Leeds", "GB", "thistledown.example"),
        ("Copperkettle Catering Ltd", "3 Foundry Row", "BS1 6QH", "Bristol", "GB", "copperkettle.example"),
        (
            "Larkspur Cloud Services plc",
            "200 Weaver Street",
            "M1 2WD",
            "Manchester",
            "GB",
            "larkspur-cloud.example",
        ),
        (
            "Osprey Tools & Fixings Ltd",
            "Unit 9, Harbour Park",
            "EH6 7BD",
            "Edinburgh",
            "GB",
            "osprey-tools.example",
        ),
        ("Shannonbrook Print DAC", "27 Quayside", "D02 XY45", "Dublin", "IE", "shannonbrook.example"),
        ("Ballyfern Software Ltd", "5 Mill Road", "T12 AB34", "Cork", "IE", "ballyfern.example"),
    ),
    "fr": (
        ("Papeterie Belle-Encre SARL", "18 rue des Tilleuls", "69002", "Lyon", "FR", "belle-encre.example"),
        ("Électricité Grandval SAS", "4 impasse du Moulin", "31000", "Toulouse", "FR", "grandval.example"),
        ("Imprimerie du Vieux Pont", "77 quai de l'Île", "33000", "Bordeaux", "FR", "vieuxpont.example"),
        ("Traiteur Le Thym Doré", "9 place du Marché", "44000", "Nantes", "FR", "thymdore.example"),
        ("Nuage Bleu Hébergement SA", "120 avenue des Érables", "59800", "Lille", "FR", "nuagebleu.example"),
        ("Horlogerie Montclair Sàrl", "Rue du Lac 31", "1003", "Lausanne", "CH", "montclair.example"),
    ),
}
_BUYERS = {
    "de": ("Beispiel & Partner GmbH", "Lindenallee 50", "50667", "Köln", "DE", "example.org"),
    "en": ("Example Trading Ltd", "1 Orchard Court", "N1 9GU", "London", "GB", "example.com"),
    "fr": ("Exemple et Cie SAS", "25 boulevard des Lilas", "75011", "Paris", "FR", "example.net"),
}
# One broker per layout.
_BROKERS = {
    "register": (
        "Rotdorn Wertpapierhaus AG",
        "Rotdornallee 1",
        "60311",
        "Frankfurt am Main",
        "DE",
        "rotdorn.example",
    ),
    "brief": ("Wiesengrund Depot SE", "Am Wiesengrund 8", "80331", "München", "DE", "wiesengrund.example"),
    "slip": (
        "Quillfeather Securities Ltd",
        "12 Lantern Court",
        "EC2V 7AA",
        "London",
        "GB",
        "quillfeather.example",
    ),
    "statement": (
        "Tarnbrook Capital Markets LLP",
        "40 Tarn Street",
        "EH2 4AD",
        "Edinburgh",
        "GB",
        "tarnbrook.example",
    ),
    "avis": ("Maison Verdelune Titres SA", "6 rue de la Lune", "75002", "Paris", "FR", "verdelune.example"),
    "grid": ("Sablefin Courtage", "Rue du Sable 19", "1204", "Genève", "CH", "sablefin.example"),
}
# name, ticker, country and number of the ISIN without its check digit, currency, price range
_SECURITIES = (
    ("Nordmeer Windkraft AG", "NMW", "DE", "000ZZ1017", "EUR", 12, 90),
    ("Hallertau Brauhaus SE", "HBH", "DE", "000ZZ2046", "EUR", 40, 210),
    ("Kupferberg Maschinen Vz.", "KBM3", "DE", "000ZZ3077", "EUR", 8, 35),
    ("Larkhill Minerals plc", "LKH", "GB", "00ZZ41108", "GBP", 2, 19),
    ("Penrose Rail Group plc", "PNR", "GB", "00ZZ52216", "GBP", 4, 28),
    ("Verger Laboratoires SA", "VGL", "FR", "00ZZ60331", "EUR", 55, 320),
    ("Clairmont Énergie", "CME", "FR", "00ZZ71440", "EUR", 9, 60),
    ("Bluestem Robotics Inc.", "BSTM", "US", "ZZ8115504", "USD", 30, 480),
    ("Cedar Hollow Foods Corp.", "CHFC", "US", "ZZ9226609", "USD", 15, 130),
    ("Weltkorb Index ETF", "WKIX", "IE", "00ZZ03381", "EUR", 60, 110),
)


@functools.cache
def _make_firm(name: str, street: str, postcode: str, city: str, country: str, domain: str) -> Firm:
    rng = SeededRandom(hash_text(0, name), 25)
    return Firm(
        name=name,
        street=street,
        postcode=postcode,
        city=city,
        country=country,
        domain=domain,
        vat_id=draw_vat_id(country, rng),
        iban=draw_iban(country, rng),
        bic=f"TEST{country}{rng.pick('23456789')}{rng.pick('ABCDEF')}{_HEAD_OFFICE}",
        phone=_make_phone_number(country, rng),
    )


def _make_phone_number(country: str, rng: SeededRandom) -> str:
    """Make a phone number, from the range reserved for fiction where the country has one."""
    match country:
        case "GB":
            return f"+44 1632 960{rng.digits(3)}"
        case "FR":
            return f"+33 1 99 00 {rng.digits(2)} {rng.digits(2)}"
        case "IE":
            return f"+353 20 910 {rng.digits(4)}"
        case "CH":
            return f"+41 44 000 {rng.digits(2)} {rng.digits(2)}"
        case _:
            return f"+49 30 23125 {rng.digits(3)}"


def choose_supplier(seed: int, language: str) -> Firm:
    return _make_firm(*SeededRandom(seed, 26).pick(_SUPPLIERS[language]))


def get_buyer(language: str) -> Firm:
    return _make_firm(*_BUYERS[language])


def choose_broker_layout(variant: str, seed: int) -> str:
    """Choose the broker's layout: the one the variant names or, for scans, one drawn from the seed."""
    return variant if variant in _BROKERS else SeededRandom(seed, 30).pick(tuple(_BROKERS))


def get_broker(layout: str) -> Firm:
    return _make_firm(*_BROKERS[layout])


def choose_security(rng: SeededRandom) -> Security:
    name, ticker, country, digits, currency, low, high = rng.pick(_SECURITIES)
    return Security(name, ticker, make_isin(country, digits), currency, low, high)
