"""Where tools act: files behind one interface, and commands that are kept from the rest of the machine."""
