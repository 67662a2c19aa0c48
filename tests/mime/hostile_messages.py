"""Messages made to slow down their reader: each kind grows with a number."""


def nest(levels, inner):
    for level in range(levels):
        inner = b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n%b" % (level, level, inner)
    return inner


MULTIPART = b"Content-Type: multipart/mixed; boundary=b\n\n"
HTML = b"Content-Type: text/html\n\n"
SLOW = {
    "address without @": lambda n: b"To: " + b"a" * n,
    "commas": lambda n: b"To: " + b"a," * n,
    "comments": lambda n: b"To: " + b"(" * n,
    "quotes": lambda n: b"To: " + b'"\\' * n,
    "blanks": lambda n: b"To: " + b" " * n + b"x",
    "angles": lambda n: b"To: " + b"<a> b" * n,
    "routes": lambda n: b"To: <@" + b":a" * n,
    "address lines": lambda n: (b"To: x" + b" " * 280 + b"y\n") * n,
    "unfinished words": lambda n: b"Subject: " + b"=?a?b?" * n,
    "words": lambda n: b"Subject: " + b"=?utf-8?b?AAAA?=" * n,
    "words apart": lambda n: b"Subject: " + (b"=?utf-8?q?a?=" + b" " * 50) * n,
    "charsets": lambda n: b"Subject: " + b"".join(b"=?x%d?q?a?=" % each for each in range(n)),
    "parameters": lambda n: b"Content-Type: text/plain" + b"; a=b" * n,
    "open parameters": lambda n: b"Content-Type: text/plain" + b'; a="' * n,
    "references": lambda n: b"References: " + b"<a" * n,
    "lines": lambda n: b"X: y\n" * n,
    "folded lines": lambda n: b"X: y\n" + b" z\n" * n,
    "date": lambda n: b"Date: " + b"1 " * n,
    "boundaries on a line": lambda n: MULTIPART + b"--b" * 20 * n,
    "boundaries at line starts": lambda n: MULTIPART + b"\n--b" + b" " * 150 + b"\n--bc" * n,
    "parts": lambda n: MULTIPART + b"--b\n\n" * n,
    "nested parts": lambda n: nest(30, b"\n" + b"--c" * n),
    "attached messages": lambda n: b"Content-Type: message/rfc822\n\n" * 30 + b"x" * n,
    "uuencode": lambda n: b"Content-Type: a/b\nContent-Transfer-Encoding: uuencode\n\n" + b"#AAAA\n" * n,
    "base64": lambda n: b"Content-Type: a/b\nContent-Transfer-Encoding: base64\n\n" + b"A!" * n,
    "open tags": lambda n: HTML + b"<a " * n,
    "unclosed styles": lambda n: HTML + b"<style>" * n,
    "unclosed ends": lambda n: HTML + b"<style></style " * n,
    "comments in HTML": lambda n: HTML + b"<!--" * n,
    "references in HTML": lambda n: HTML + b"&#1" * n + b"&" * n,
}
