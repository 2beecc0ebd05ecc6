"""Entry point of the Pulumi plugin in this folder."""

from nodewright.provider import main

if __name__ == "__main__":
    main()
