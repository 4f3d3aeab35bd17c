"""python -m fedaudit."""

from fedaudit.cli import main

if __name__ == "__main__":
    main()
