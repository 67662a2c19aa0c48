"""The firms that documents come from and go to: suppliers, buyers, brokers, issuers. All invented."""

import functools
from dataclasses import dataclass

from mailsim.samples.check_digits import bank_account, isin, vat_id
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
    def land(self) -> str:
        """The country's name in its own language."""
        return _LANDS[self.country]

    @property
    def place(self) -> str:
        return (
            f"{self.city} {self.postcode}" if self.country in {"GB", "IE"} else f"{self.postcode} {self.city}"
        )

    def mail(self, local: str) -> str:
        return f"{local}@{self.domain}"


@dataclass(frozen=True, slots=True)
class Security:
    name: str
    ticker: str
    isin: str
    currency: str
    low: int
    high: int


_HEAD_OFFICE = 3 * "X"  # the branch that a BIC names where it means none in particular
_LANDS = {"DE": "Deutschland", "CH": "Schweiz", "GB": "United Kingdom", "IE": "Ireland", "FR": "France"}
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
# One house each, with a layout of its own.
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
def _firm(name: str, street: str, postcode: str, city: str, country: str, domain: str) -> Firm:
    dice = SeededRandom(hash_text(0, name), 25)
    return Firm(
        name=name,
        street=street,
        postcode=postcode,
        city=city,
        country=country,
        domain=domain,
        vat_id=vat_id(country, dice),
        iban=bank_account(country, dice),
        bic=f"TEST{country}{dice.pick('23456789')}{dice.pick('ABCDEF')}{_HEAD_OFFICE}",
        phone=_phone(country, dice),
    )


def _phone(country: str, dice: SeededRandom) -> str:
    """Numbers that are set aside for films and examples where a country has such."""
    match country:
        case "GB":
            return f"+44 1632 960{dice.digits(3)}"
        case "FR":
            return f"+33 1 99 00 {dice.digits(2)} {dice.digits(2)}"
        case "IE":
            return f"+353 20 910 {dice.digits(4)}"
        case "CH":
            return f"+41 44 000 {dice.digits(2)} {dice.digits(2)}"
        case _:
            return f"+49 30 23125 {dice.digits(3)}"


def supplier(seed: int, language: str) -> Firm:
    return _firm(*SeededRandom(seed, 26).pick(_SUPPLIERS[language]))


def buyer(language: str) -> Firm:
    return _firm(*_BUYERS[language])


def broker_layout(variant: str, seed: int) -> str:
    """The house that a letter comes from: its variant names one, or (for scans) the seed does."""
    return variant if variant in _BROKERS else SeededRandom(seed, 30).pick(tuple(_BROKERS))


def broker(layout: str) -> Firm:
    return _firm(*_BROKERS[layout])


def security(dice: SeededRandom) -> Security:
    name, ticker, country, digits, currency, low, high = dice.pick(_SECURITIES)
    return Security(name, ticker, isin(country, digits), currency, low, high)
