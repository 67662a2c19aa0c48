"""Writer of messages in every common charset and transfer encoding, headers included."""

from mailsim.samples import headers
from mailsim.samples.message_spec import MessageSpec
from mailsim.samples.mime_parts import make_text

# ruff: noqa: RUF001 (characters that look like Latin ones are intended)
_WESTERN = "Grüße aus Köln: größere Menge, schöne Straße, élève, señor."
_EURO = "Der Preis beträgt 120 € für größere Mengen, œuvre comprise."
_CENTRAL = "Zażółć gęślą jaźń, příliš žluťoučký kůň, árvíztűrő."
_CYRILLIC = "Добрый день! Отправляем вам счёт и акт за прошлый месяц."
_GREEK = "Καλημέρα, σας στέλνουμε το τιμολόγιο του μήνα."
_HEBREW = "שלום רב, מצורפת החשבונית עבור החודש שעבר."
_ARABIC = "مرحبا، نرسل إليكم فاتورة الشهر الماضي."
_TURKISH = "Günaydın, geçen ayın faturasını ekte gönderiyoruz. Iğdır, şişe."
_JAPANESE = "お世話になっております。先月分の請求書をお送りいたします。ご確認ください。"
_CHINESE = "您好，附上上个月的发票，请查收。如有问题请与我们联系。"
_TAIWANESE = "您好，附上上個月的發票，請查收。如有問題請與我們聯絡。"
_KOREAN = "안녕하세요. 지난달 청구서를 보내 드립니다. 확인 부탁드립니다."
_THAI = "สวัสดีครับ ส่งใบแจ้งหนี้ของเดือนที่แล้วมาให้ครับ"

TEXTS = {
    "us-ascii": "Hello, please find the figures of last month below.",
    "utf-8": f"{_WESTERN} {_CYRILLIC} {_JAPANESE} 🙂",
    "iso-8859-1": _WESTERN,
    "iso-8859-2": _CENTRAL,
    "iso-8859-7": _GREEK,
    "iso-8859-8": _HEBREW,
    "iso-8859-9": _TURKISH,
    "iso-8859-15": _EURO,
    "windows-1250": _CENTRAL,
    "windows-1251": _CYRILLIC,
    "windows-1252": f"„{_EURO}“",
    "windows-1256": _ARABIC,
    "koi8-r": _CYRILLIC,
    "tis-620": _THAI,
    "iso-2022-jp": _JAPANESE,
    "shift_jis": _JAPANESE,
    "euc-jp": _JAPANESE,
    "gb2312": _CHINESE,
    "gb18030": f"{_CHINESE} 🙂",
    "big5": _TAIWANESE,
    "euc-kr": _KOREAN,
    "utf-16": f"{_WESTERN} {_JAPANESE}",
}


def write_charset(spec: MessageSpec) -> bytes:
    """Write a message in the charset and encoding of the variant, `charset/encoding`.

    The subject uses the same charset, in Q or B encoded words.
    """
    name, _, encoding = spec.variant.partition("/")
    body = "\n".join((TEXTS[name], "", f"{spec.seed:x} {TEXTS[name]}", ""))
    part = make_text(body, charset=name, encoding=encoding)
    if spec.seed % 3 == 0:
        meta = f'<meta http-equiv="Content-Type" content="text/html; charset={name}">'
        page = f"<html><head>{meta}</head>\n<body>{body}</body></html>\n"
        part = make_text(page, "html", charset=name, encoding=encoding)
    head = headers.format_header_block(spec)
    if name not in {"us-ascii", "utf-16"}:
        head = headers.replace_header(
            head, "Subject", f"Subject: {_encode_subject(TEXTS[name][:36], name, encoding)}\r\n"
        )
    return f"{head}{part.head}\r\n".encode("ascii") + part.body


def _encode_subject(subject: str, name: str, encoding: str) -> str:
    # Most clients break ISO-2022-JP escape sequences in Q words, so real senders use B.
    if encoding == "quoted-printable" and name != "iso-2022-jp":
        return headers.encode_q_words(subject, name)
    return headers.encode_b_words(subject, name, 10)
