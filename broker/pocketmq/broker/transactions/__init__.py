"""Half messages: stored out of sight, then committed, rolled back, or asked for."""
