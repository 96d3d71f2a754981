"""What the columns of each stream mean, with their units: told wherever a table shows them."""

from collections.abc import Mapping

STREAM_COLUMNS: Mapping[str, Mapping[str, str]] = {
    "ride_points": {
        "ride_id": "Ride that the point belongs to",
        "point_idx": "Number of the point in its ride, from 0",
        "latitude": "Degrees north, WGS 84",
        "longitude": "Degrees east, WGS 84",
        "timestamp": "Event time: when the point was taken (UTC)",
        "meter_reading": "Fare on the meter so far",
        "meter_increment": "Fare added a point",
        "ride_status": "pickup, enroute or dropoff",
        "passenger_count": "Passengers aboard",
    },
    "weather": {
        "station_id": "Station that took the reading",
        "time": "Event time: the hour of the reading (UTC)",
        "temp": "Temperature, °F",
        "dewp": "Dew point, °F",
        "humid": "Relative humidity, %",
        "wind_dir": "Direction the wind comes from, degrees",
        "wind_speed": "Wind speed, miles an hour",
        "wind_gust": "Wind gusts, miles an hour",
        "precip": "Precipitation, inches",
        "pressure": "Pressure at sea level, hPa",
        "visib": "Visibility, miles",
    },
    "metrics": {
        "key": "Series: the column `key`, or the file's path below the landing folder without its endings",
        "timestamp": "Event time: when the value was measured (UTC)",
        "value": "The value, in the series' own unit",
    },
    "telemetry": {
        "vehicle_id": "Vehicle that sent the point",
        "time": "Event time: when the point was taken (UTC)",
        "latitude": "Degrees north, WGS 84",
        "longitude": "Degrees east, WGS 84",
        "speed": "Speed, km/h",
        "fuel_level": "Fuel in the tank, litres",
    },
    "sales": {
        "item": "What was sold: the item's code or name",
        "quantity": "Pieces; negative for returns",
        "models": "Variants of the item in this sale",
        "time": "Event time: when it was sold (UTC)",
        "price": "Price of one piece, in the shop's currency",
        "invoice": "Invoice that lists the sale",
        "customer": "Who bought it",
        "country": "Where the customer lives",
    },
}
