"""A whole platform in RTL, built from its description: engines, links and switches."""
