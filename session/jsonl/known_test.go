package jsonl

import (
	"fmt"
	"testing"
)

// On valid JSON the fast walk visits what the validating one visits.
func FuzzKnown(f *testing.F) {
	for _, s := range []string{
		`{"a":"x\\","b":[1,"]",{"c":"}"}],"d":{} }`, `[ "\"" , {"a":null}, [] ,1e3]`, `{}`, `[]`, ` { "a" : "\\\"" , "b" : true } `,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var want, got []string
		if Members(raw, func(k, v []byte) bool { want = append(want, fmt.Sprintf("%s:%s", k, v)); return true }) {
			KnownMembers(raw, func(k, v []byte) bool { got = append(got, fmt.Sprintf("%s:%s", k, v)); return true })
		} else {
			want = nil
			if Elements(raw, func(v []byte) bool { want = append(want, string(v)); return true }) {
				KnownElements(raw, func(v []byte) bool { got = append(got, string(v)); return true })
			} else {
				KnownMembers(raw, func(k, v []byte) bool { return true })
				KnownElements(raw, func(v []byte) bool { return true })
				return
			}
		}
		if fmt.Sprint(want) != fmt.Sprint(got) {
			t.Fatalf("%q: want %q, got %q", raw, want, got)
		}
	})
}
