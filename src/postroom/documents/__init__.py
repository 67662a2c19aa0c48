"""From bytes to typed results: pure functions, no database, no network but a language model that was asked for."""
