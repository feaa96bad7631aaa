"""Links one by one, where dims cannot be folded: meshes, and groups that are any ranks."""
