"""`python -m tcpassay`."""

from tcpassay.cli import main

if __name__ == "__main__":
    main()
