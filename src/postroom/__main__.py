"""The command `postroom`."""

import sys

from postroom.cli import run


def main() -> None:
    sys.exit(run())


if __name__ == "__main__":
    main()
