package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/stax-otel/stax/archive"
)

func newSaveCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "save [ID|ARCHIVE] --out PATH",
		Short: "Copy a recording to a place of your own; a live one is stopped first",
		Example: `  stax save --out baseline.stax
  stax save demo-20260101T120000Z --out /data/baseline.stax`,
		Args: args(cobra.MaximumNArgs(1)),
	}
	out := cmd.Flags().StringP("out", "o", "", "where to copy it to; must not exist")
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		if *out == "" {
			return usageError("--out is needed: where to copy the archive to")
		}
		if _, err := os.Lstat(*out); err == nil {
			return fmt.Errorf("%s exists; give --out a new name", *out)
		}
		path, err := a.pickToSave(cmd.Context(), first(given))
		if err != nil {
			return err
		}
		if err := copyArchive(path, *out); err != nil {
			return fmt.Errorf("save %s: %w", path, err)
		}
		return a.summary(cmd.Context(), *out)
	}
	return cmd
}

// pickToSave finds what to save, and stops it if it is live.
func (a *app) pickToSave(ctx context.Context, want string) (string, error) {
	var here []held
	for _, h := range heldRecordings(ctx) {
		if live(h.Info) {
			here = append(here, h)
		}
	}
	path := ""
	if want == "" && len(here) == 0 || want != "" {
		var err error
		path, err = a.pick(ctx, want)
		if err != nil && (want == "" || len(here) == 0) {
			return "", err
		}
	}
	if path != "" {
		r, err := archive.Open(path, archive.ReaderOptions{})
		if err != nil {
			return "", err
		}
		isLive := r.Live()
		_ = r.Close() // only asked
		if !isLive {
			return path, nil
		}
		want = ""
		abs, err := filepath.Abs(path)
		if err != nil {
			return "", err
		}
		for _, h := range here {
			if h.Path == abs || h.Path == path {
				want = string(h.ID)
			}
		}
		if want == "" {
			return "", fmt.Errorf("%s is still being written, by a recorder that does not answer; stop it first", path)
		}
	}
	h, err := chooseLive(here, want)
	if err != nil {
		return "", err
	}
	a.say("stopping the live recording %s", h.Name)
	info, err := h.collector.stop(ctx, h.ID)
	return info.Path, err
}

// copyArchive copies a directory under a temporary name and renames it: an archive is there whole or not at all.
func copyArchive(from, to string) (err error) {
	parent := filepath.Dir(to)
	tmp, err := os.MkdirTemp(parent, "."+filepath.Base(to)+"-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(tmp) // the first error counts
		}
	}()
	err = filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		dst := filepath.Join(tmp, rel)
		switch {
		case rel == ".":
			return os.Chmod(tmp, 0o755)
		case d.IsDir():
			return os.Mkdir(dst, 0o755)
		case !d.Type().IsRegular():
			return fmt.Errorf("%s is neither a file nor a directory", path)
		case d.Name() == "writer.lock" && filepath.Dir(rel) == ".":
			return nil // held by the writer, not part of the archive
		}
		return copyFile(path, dst)
	})
	if err != nil {
		return err
	}
	return os.Rename(tmp, to)
}

func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}
