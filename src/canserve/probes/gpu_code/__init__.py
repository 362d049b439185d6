"""Which machine code and PTX the extensions of a build hold: from ELF headers, by small reads, nothing executed.

``elf`` finds sections, ``fatbin`` and ``offload`` read what vendors put into them, ``extension`` puts a file
together, ``files`` says which files are looked at, ``reading`` brings them in from any kind of tree.
"""
