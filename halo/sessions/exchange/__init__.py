"""Sessions that leave and come: as documents for people, as message arrays, as files that lose nothing."""
