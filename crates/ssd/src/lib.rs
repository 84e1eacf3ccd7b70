//! An SSD as a discrete-event performance model in virtual time.
