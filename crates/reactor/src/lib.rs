//! Completion-based IO for one thread.
