//! Line charts of reports, as SVG files.

use std::{ops::Range, path::Path};

use anyhow::{Result, anyhow};
use plotters::{
    chart::{ChartBuilder, SeriesLabelPosition},
    coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter},
    drawing::{DrawingArea, IntoDrawingArea},
    element::{Circle, PathElement},
    prelude::SVGBackend,
    series::LineSeries,
    style::{BLACK, Color as _, RGBColor, WHITE},
};

const SIZE: (u32, u32) = (860, 460);

/// Colours that are distinguishable with colour blindness: the palette of Okabe and Ito.
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(213, 94, 0),
    RGBColor(86, 180, 233),
];

/// A line of a chart: its label, and its points in order.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) label: String,
    pub(super) points: Vec<(f64, f64)>,
}

/// A line chart.
#[derive(Debug)]
pub(super) struct Chart<'a> {
    pub(super) title: &'a str,
    pub(super) x: &'a str,
    pub(super) y: &'a str,
    pub(super) lines: Vec<Line>,
    /// True if the y axis is logarithmic.
    pub(super) logarithmic: bool,
}

impl Chart<'_> {
    /// Writes the chart. Writes nothing if the chart has no points.
    pub(super) fn write(&self, path: &Path) -> Result<()> {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        if points().next().is_none() {
            return Ok(());
        }
        let most = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::MIN, f64::max);
        let x_max = most(&mut points().map(|point| point.0));
        let y_max = most(&mut points().map(|point| point.1));
        let y_min = points().map(|point| point.1).fold(f64::MAX, f64::min);
        let area = SVGBackend::new(path, SIZE).into_drawing_area();
        let x = 0.0..x_max * 1.03;
        let drawn = match self.logarithmic {
            true => {
                use plotters::coord::combinators::IntoLogRange as _;
                let heights = y_min.max(1e-6) / 1.5..y_max * 4.0;
                self.draw(&area, x, heights.log_scale())
            }
            false => self.draw(&area, x, 0.0..y_max * 1.3),
        };
        drawn.map_err(|error| anyhow!("cannot draw {}: {error}", path.display()))
    }

    fn draw<'b, Y>(
        &self,
        area: &DrawingArea<SVGBackend<'b>, plotters::coord::Shift>,
        x: Range<f64>,
        y: Y,
    ) -> Result<(), Box<dyn std::error::Error + 'b>>
    where
        Y: AsRangedCoord<Value = f64>,
        Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(area)
            .caption(self.title, ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(68)
            .build_cartesian_2d(x, y)?;
        chart
            .configure_mesh()
            .x_desc(self.x)
            .y_desc(self.y)
            .label_style(("sans-serif", 13))
            .bold_line_style(BLACK.mix(0.12))
            .light_line_style(BLACK.mix(0.03))
            .draw()?;
        for (line, colour) in self.lines.iter().zip(COLOURS.iter().cycle()) {
            let style = colour.stroke_width(2);
            chart
                .draw_series(LineSeries::new(line.points.iter().copied(), style))?
                .label(&line.label)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
            let dots = line.points.iter();
            chart.draw_series(dots.map(|&point| Circle::new(point, 3, colour.filled())))?;
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.2))
            .label_font(("sans-serif", 13))
            .draw()?;
        area.present()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{env, fs, process};

    use super::*;

    #[test]
    fn a_chart_labels_its_lines() {
        let path = env::temp_dir().join(format!("xtask-chart-{}.svg", process::id()));
        let chart = |logarithmic| Chart {
            title: "First token",
            x: "tokens",
            y: "ms",
            lines: vec![Line {
                label: "warm turns".into(),
                points: vec![(500.0, 20.0), (7000.0, 400.0)],
            }],
            logarithmic,
        };
        for logarithmic in [true, false] {
            chart(logarithmic).write(&path).expect("drawn");
            let text = fs::read_to_string(&path).expect("written");
            assert!(
                text.contains("<svg") && text.contains("warm turns"),
                "{text}"
            );
        }
        fs::remove_file(&path).expect("removed");
    }
}
