"""Microsoft Entra: sign-in pages, the token endpoint, discovery. Knows no mail."""
