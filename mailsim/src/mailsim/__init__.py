"""mailsim: a stateful simulator of Gmail and Microsoft 365 mail on loopback."""

__version__ = "0.1.0"
