"""The time zones that Outlook knows: those of Windows, and the names of the IANA database."""

from functools import cache
from zoneinfo import available_timezones

from mailsim.graph.errors import GraphError, bad_request

_WITHOUT_SUFFIX = {"UTC", "UTC-02", "UTC-08", "UTC-09", "UTC-11", "UTC+12", "UTC+13", "tzone://Microsoft/Utc"}
_STANDARD = (
    "AUS Central", "AUS Eastern", "Afghanistan", "Alaskan", "Aleutian", "Altai", "Arab", "Arabian",
    "Arabic", "Argentina", "Astrakhan", "Atlantic", "Aus Central W.", "Azerbaijan", "Azores", "Bahia",
    "Bangladesh", "Belarus", "Bougainville", "Canada Central", "Cape Verde", "Caucasus", "Cen. Australia",
    "Central America", "Central Asia", "Central Brazilian", "Central Europe", "Central European",
    "Central Pacific", "Central", "Chatham Islands", "China", "Cuba", "Dateline", "E. Africa",
    "E. Australia", "E. Europe", "E. South America", "Easter Island", "Eastern", "Egypt", "Ekaterinburg",
    "FLE", "Fiji", "GMT", "GTB", "Georgian", "Greenland", "Greenwich", "Haiti", "Hawaiian", "India", "Iran",
    "Israel", "Jordan", "Kaliningrad", "Kamchatka", "Korea", "Libya", "Line Islands", "Lord Howe",
    "Magadan", "Magallanes", "Marquesas", "Mauritius", "Mid-Atlantic", "Middle East", "Montevideo",
    "Morocco", "Mountain", "Myanmar", "N. Central Asia", "Namibia", "Nepal", "New Zealand", "Newfoundland",
    "Norfolk", "North Asia East", "North Asia", "North Korea", "Omsk", "Pacific SA", "Pacific", "Pakistan",
    "Paraguay", "Qyzylorda", "Romance", "Russian", "SA Eastern", "SA Pacific", "SA Western", "SE Asia",
    "Saint Pierre", "Sakhalin", "Samoa", "Sao Tome", "Saratov", "Singapore", "South Africa", "South Sudan",
    "Sri Lanka", "Sudan", "Syria", "Taipei", "Tasmania", "Tocantins", "Tokyo", "Tomsk", "Tonga",
    "Transbaikal", "Turkey", "Turks And Caicos", "US Eastern", "US Mountain", "Ulaanbaatar", "Venezuela",
    "Vladivostok", "Volgograd", "W. Australia", "W. Central Africa", "W. Europe", "W. Mongolia",
    "West Asia", "West Bank", "West Pacific", "Yakutsk", "Yukon",
)  # fmt: skip
_IRREGULAR = {
    "Central Standard Time (Mexico)",
    "Eastern Standard Time (Mexico)",
    "Mountain Standard Time (Mexico)",
    "Pacific Standard Time (Mexico)",
    "Russia Time Zone 10",
    "Russia Time Zone 11",
    "Russia Time Zone 3",
}


@cache
def _list_names() -> frozenset[str]:
    windows = _WITHOUT_SUFFIX | _IRREGULAR | {f"{name} Standard Time" for name in _STANDARD}
    return frozenset(name.lower() for name in windows | available_timezones())


def is_time_zone(name: str) -> bool:
    """Return whether Outlook knows a time zone. Needs an IANA time zone database on this machine."""
    return name.lower() in _list_names()


def unknown_time_zone(name: str) -> GraphError:
    return bad_request(
        "A valid TimeZone value must be specified. "
        f"The following TimeZone value is not supported: '{name[:100]}'.",
        "TimeZoneNotSupportedException",
    )
