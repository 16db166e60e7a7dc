"""HTML reports of commands: one file each, with its stylesheet and charts inside, which loads nothing from anywhere."""
