"""Read what upstream printed and decide whether its figure may be believed."""
