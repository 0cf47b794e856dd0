package watcher

import "syscall"

// Magic numbers of statfs(2), from linux/magic.h.
const (
	magicExt       = 0xEF53 // ext2, ext3, ext4
	magicXFS       = 0x58465342
	magicBtrfs     = 0x9123683E
	magicTmpfs     = 0x01021994
	magicRamfs     = 0x858458F6
	magicOverlay   = 0x794C7630
	magicF2FS      = 0xF2F52010
	magicZFS       = 0x2FC12FC1
	magicBcachefs  = 0xCA451A4E
	magicReiserfs  = 0x52654973
	magicJFS       = 0x3153464A
	magicEcryptfs  = 0xF15F
	magicMSDOS     = 0x4D44
	magicExFAT     = 0x2011BAB0
	magicNTFS3     = 0x7366746E
	magicSquashfs  = 0x73717368
	magicHugetlbfs = 0x958458F6
)

// hasEvents reports whether the kernel sees every write to dir: on a local
// file system. On others (NFS, 9p, SMB, FUSE, anything unknown) a write made
// on the other side gives no event. A directory that cannot be asked counts
// as local: adding the watch gives the better error.
func hasEvents(dir string) bool {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return true
	}
	switch uint32(s.Type) {
	case magicExt, magicXFS, magicBtrfs, magicTmpfs, magicRamfs, magicOverlay, magicF2FS, magicZFS, magicBcachefs,
		magicReiserfs, magicJFS, magicEcryptfs, magicMSDOS, magicExFAT, magicNTFS3, magicSquashfs, magicHugetlbfs:
		return true
	}
	return false
}
