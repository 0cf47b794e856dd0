package main

import (
	"testing"
	"time"
)

func TestVisible(t *testing.T) {
	for _, c := range []struct {
		in    string
		multi bool
		want  string
	}{
		{"plain", false, "plain"},
		{"two\nlines\tx", true, "two\nlines\tx"},
		{"two\nlines\tx", false, "two lines x"},
		{"\x1b]0;title\x07", true, "^[]0;title^G"},
		{"\x1b[31mred\x1b[0m", true, "^[[31mred^[[0m"},
		{"bell\x07 cr\r del\x7f", true, "bell^G cr^M del^?"},
		{"c1 \u009b31m", true, "c1 <U+009B>31m"},
		{"bidi \u202egnp.exe", true, "bidi <U+202E>gnp.exe"},
		{"bad \xff utf8", true, "bad \\xff utf8"},
		{"汉字 ü 🙂", true, "汉字 ü 🙂"},
	} {
		if got := visible(c.in, c.multi); got != c.want {
			t.Errorf("visible(%q, %v) = %q, want %q", c.in, c.multi, got, c.want)
		}
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		in    string
		width int
		want  string
	}{
		{"short", 10, "short"},
		{"exactly10!", 10, "exactly10!"},
		{"a longer text", 8, "a longe…"},
		{"汉字汉字汉字", 7, "汉字汉…"},
		{"anything", 0, "anything"},
	} {
		if got := cut(c.in, c.width); got != c.want {
			t.Errorf("cut(%q, %d) = %q, want %q", c.in, c.width, got, c.want)
		}
	}
}

func TestAge(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		ago  time.Duration
		want string
	}{
		{-time.Second, "now"},
		{5 * time.Second, "5s"},
		{3 * time.Minute, "3m"},
		{47 * time.Hour, "47h"},
		{72 * time.Hour, "3d"},
	} {
		if got := age(now, now.Add(-c.ago)); got != c.want {
			t.Errorf("age of %v = %q, want %q", c.ago, got, c.want)
		}
	}
	if got := age(now, time.Time{}); got != "-" {
		t.Errorf("age of unknown = %q", got)
	}
}

func TestByteSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 5 << 20: "5.0 MiB", 3 << 30: "3.0 GiB"} {
		if got := byteSize(n); got != want {
			t.Errorf("byteSize(%d) = %q, want %q", n, got, want)
		}
	}
}
