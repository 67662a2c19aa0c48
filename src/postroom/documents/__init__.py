"""From bytes to typed results. Pure but for a language model that was asked for; no database."""
