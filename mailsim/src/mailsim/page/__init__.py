"""The web page at `/` for inspecting and controlling the simulator.

Its forms call the handlers of the control API.
"""

from mailsim.page.routes import routes

__all__ = ["routes"]
