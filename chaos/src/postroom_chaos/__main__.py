"""`python -m postroom_chaos`, and the entry point of `postroom-chaos`."""

from postroom_chaos.command import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
