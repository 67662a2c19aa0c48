"""Builders of XML elements as strings, with escaping."""


def escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def element(name: str, *children: str, **attributes: str) -> str:
    """Make an element that contains elements."""
    attribute_text = "".join(f' {key}="{escape(value)}"' for key, value in attributes.items())
    return f"<{name}{attribute_text}>{''.join(children)}</{name}>"


def leaf(name: str, value: object, **attributes: str) -> str:
    """Make an element that contains text."""
    return element(name, escape(str(value)), **attributes)
