package guides

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stax-otel/stax/sdk/stage"
)

type guideFrame struct{ number int }

// The code of stages.md, compiled.

func stagesPipeline(next func() (guideFrame, error), detect func(guideFrame) int, publish func(int) error) {
	stages := stage.NewRegistry(stage.Options{Mode: stage.On, Buffers: true})
	frames := stages.Record("camera.Frame")

	capture := stage.SourceErr(frames, next, stage.Named("camera_capture"))
	find := stage.Transform(frames, detect, stage.Named("detector"))
	send := stage.LinkErr(frames, publish, stage.Named("mqtt_publisher"))

	buffer := stage.NewBuffer[guideFrame](frames, "frames", 4)
	go func() {
		defer buffer.Close()
		for {
			f, err := capture()
			if err != nil {
				return
			}
			buffer.Offer(f) // drops and counts when the consumer is too slow
		}
	}()
	for f := range stage.TapSeq(frames, buffer.All(), stage.Named("frame_processor")) {
		if err := send(find(f)); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Print(stage.Format(frames.Snapshot()))
}

func TestStagesGuide(t *testing.T) {
	requireSameCode(t, "stages.md", "stages_test.go", 1)
	n, sent := 0, 0
	stagesPipeline(func() (guideFrame, error) {
		if n++; n > 3 {
			return guideFrame{}, fmt.Errorf("the film is over")
		}
		return guideFrame{n}, nil
	}, func(f guideFrame) int { return f.number }, func(int) error { sent++; return nil })
	require.Positive(t, sent)
}
