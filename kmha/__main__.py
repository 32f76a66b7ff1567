"""`python -m kmha` is the command `kmha`."""

from kmha.cli import main

if __name__ == "__main__":
    main(prog_name="python -m kmha")
