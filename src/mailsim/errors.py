"""What the simulator refuses, in words for the person who asked. Providers have error bodies of their own.

SimulatorError
├── Invalid   the request makes no sense (400)
├── Unknown   what it names does not exist (404)
└── Taken     it exists already (409)
"""


class SimulatorError(Exception):
    status = 400


class Invalid(SimulatorError):  # noqa: N818 - read as words: `raise Invalid("…")`
    status = 400


class Unknown(SimulatorError):  # noqa: N818 - as above
    status = 404


class Taken(SimulatorError):  # noqa: N818 - as above
    status = 409
