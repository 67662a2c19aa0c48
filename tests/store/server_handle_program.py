"""A program that joins the server of the given home, prints the result, and runs until its input closes."""

import json
import sys
from pathlib import Path

from postroom.errors import PostroomError
from postroom.store import embedded


def main() -> None:
    home, wait_seconds = Path(sys.argv[1]), float(sys.argv[2])
    heard: list[str] = []
    try:
        attachment = embedded.start_or_join(home, say=heard.append, wait_seconds=wait_seconds)
    except PostroomError as error:
        sys.stdout.write(json.dumps({"error": str(error)}) + "\n")
        return
    sys.stdout.write(json.dumps({"url": attachment.url, "heard": heard}) + "\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
