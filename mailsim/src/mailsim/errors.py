"""Errors of the control API and the command line. Providers have their own error types and bodies.

SimulatorError
├── InvalidRequest   a value is missing, malformed or out of range (400)
├── NotFound         the named object does not exist (404)
└── AlreadyExists    an object with that name exists already (409)
"""


class SimulatorError(Exception):
    status = 400


class InvalidRequest(SimulatorError):
    status = 400


class NotFound(SimulatorError):
    status = 404


class AlreadyExists(SimulatorError):
    status = 409
