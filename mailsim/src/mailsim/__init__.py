"""mailsim: a simulator of Gmail and Microsoft 365 mail, with state, OAuth, pushes and faults."""

__version__ = "0.1.0"
