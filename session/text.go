package session

import "strconv"

func itoa(n int) string { return strconv.Itoa(n) }

func strconvQuote(s string) string { return strconv.Quote(s) }
