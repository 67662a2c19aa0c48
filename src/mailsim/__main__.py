def main() -> None:
    raise SystemExit(0)


if __name__ == "__main__":
    main()
