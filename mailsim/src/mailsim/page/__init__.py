"""The page at `/`, for a person who wants to look and play. Server-rendered; what it does, the control
does.
"""

from mailsim.page.routes import routes

__all__ = ["routes"]
