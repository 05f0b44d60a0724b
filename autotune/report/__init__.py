"""What people see of a run: tables, the live view, exports. Reads run folders only."""
