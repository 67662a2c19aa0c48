"""What the simulator refuses, in words for the person who asked. Providers have error bodies of their own.

SimulatorError
├── Invalid   the request makes no sense (400)
├── Unknown   what it names does not exist (404)
└── Taken     it exists already (409)
"""


class SimulatorError(Exception):
    status = 400


class Invalid(SimulatorError):
    status = 400


class Unknown(SimulatorError):
    status = 404


class Taken(SimulatorError):
    status = 409
