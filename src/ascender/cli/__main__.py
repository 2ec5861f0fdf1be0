"""python -m ascender.cli"""

from ascender.cli import main

main()
