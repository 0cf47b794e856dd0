package session

import "time"

// Time is time.Time; the alias keeps the Clock interface readable.
type Time = time.Time
