"""XML as strings: elements with escaped text."""


def escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def element(name: str, *inside: str, **attributes: str) -> str:
    """An element around other elements."""
    shown = "".join(f' {key}="{escape(value)}"' for key, value in attributes.items())
    return f"<{name}{shown}>{''.join(inside)}</{name}>"


def leaf(name: str, value: object, **attributes: str) -> str:
    """An element around a text."""
    return element(name, escape(str(value)), **attributes)
