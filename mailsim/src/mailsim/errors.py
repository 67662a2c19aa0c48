"""Errors of the simulation itself, such as an unknown mailbox or an invalid fault.

The control API, the web page and the command line report them as they are. The Gmail and Graph packages
translate them to the provider's own errors, which are defined there.

SimulatorError
├── InvalidRequest   a value is missing, malformed or out of range (400)
├── NotFound         the named object does not exist (404)
└── AlreadyExists    an object with that name exists already (409)
"""


def explain_unsimulated(endpoint: str) -> str:
    """Return the message of a 501: the provider has this endpoint, mailsim does not."""
    return f"mailsim does not simulate {endpoint}. The provider has this endpoint."


class SimulatorError(Exception):
    status = 400


class InvalidRequest(SimulatorError):
    status = 400


class NotFound(SimulatorError):
    status = 404


class AlreadyExists(SimulatorError):
    status = 409
