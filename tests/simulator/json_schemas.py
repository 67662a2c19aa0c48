"""JSON Schema checks for responses without a published description; the schemas are in `schemas`."""

import functools
import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

_FOLDER = Path(__file__).parent / "schemas"


@functools.cache
def _validator(file: str, name: str) -> Draft202012Validator:
    read = json.loads((_FOLDER / f"{file}.json").read_text())
    Draft202012Validator.check_schema(read)
    return Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": read["$defs"]})


def list_violations(file: str, name: str, value: Any) -> list[str]:
    """Return the violations of the definition `name`."""
    return [
        f"{name}{error.json_path[1:]}: {error.message}" for error in _validator(file, name).iter_errors(value)
    ]
