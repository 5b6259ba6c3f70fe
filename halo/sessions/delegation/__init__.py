"""The tools by which sessions talk to one another, and the reports of those that were started."""
